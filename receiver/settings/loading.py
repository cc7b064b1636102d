"""Settings: loaded, given by a test, handed to another process, and advice about short secrets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from receiver.core.text import counted
from receiver.runtime.log_lines import event_log
from receiver.settings.environment import PREFIX
from receiver.settings.model import Settings
from receiver.settings.values import as_text


def load_settings(env_file: Path = Path(".env"), /, **flags: Any) -> Settings:
    """Read all settings. A flag that is None is ignored. Raises ConfigurationError with a message of one line."""
    given = {name: value for name, value in flags.items() if value is not None}
    return Settings(_env_file=env_file, **given)


def load_reading_settings(**flags: Any) -> Settings:
    """Read all settings but the secrets, which may still be the placeholder, for a command that only reads."""
    return load_settings(secrets=(), **flags)


def as_variables(settings: Settings) -> dict[str, str]:
    """Return variables that give another process the same settings, without the defaults. They contain secrets."""
    return {
        f"{PREFIX}{name.upper()}": written
        for name in sorted(settings.model_fields_set)
        if (written := as_text(getattr(settings, name))) is not None
    }


class GivenSettings(Settings):  # here, because making the class takes some milliseconds and no command needs it
    """Settings with only given values and defaults, for tests: the machine must not decide the result of one."""

    _reads_environment: ClassVar[bool] = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values | {"_env_file": None})


log = event_log(__name__)

MIN_BYTES = 14
"""A key of HMAC needs 112 bits (NIST SP 800-131A Rev. 2, section 10). A shorter text cannot have them: no well-made
secret is shorter. The service does not document the length of its own. RFC 2104, section 3, asks for the 32 bytes
of the hash, but random text of half that length cannot be guessed either."""


def short_secret_advice(settings: Settings) -> Sequence[str]:
    """Return advice for each setting with such values, without the values."""
    given = (
        ("SECRETS", "secret", settings.plain_secrets(), "use the webhook secret of your account"),
        ("TOKENS", "token", settings.plain_tokens(), "use a random one, such as `openssl rand -hex 32` prints"),
    )
    return [
        f"{PREFIX}{name} has {counted(short, noun)} of less than {MIN_BYTES} bytes: attackers could guess "
        f"{'it' if short == 1 else 'them'} and send deliveries; {remedy}"
        for name, noun, values, remedy in given
        if (short := sum(len(value.encode()) < MIN_BYTES for value in values))
    ]


def log_short_secrets(settings: Settings) -> None:
    """Log the advice, a line for each setting."""
    for advice in short_secret_advice(settings):
        log.warning("secret_too_short", extra={"advice": advice})
