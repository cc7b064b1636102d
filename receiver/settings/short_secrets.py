"""Advice about secrets and tokens that are so short that somebody could guess them."""

from collections.abc import Sequence

from receiver.core.log_lines import event_log
from receiver.core.text import counted
from receiver.settings.environment import PREFIX
from receiver.settings.model import Settings

log = event_log(__name__)

MIN_BYTES = 14
"""A key of HMAC needs 112 bits (NIST SP 800-131A Rev. 2, section 10). A shorter text cannot have them, so no secret
that was made well falls under this; the service does not say how long its own are. RFC 2104, section 3, asks for
the 32 bytes of the hash, but random text of half that length cannot be guessed either."""


def short_secret_advice(settings: Settings) -> Sequence[str]:
    """Return advice for each setting with such values, without the values."""
    given = (
        ("SECRETS", "secret", settings.plain_secrets(), "use the webhook secret of your account"),
        ("TOKENS", "token", settings.plain_tokens(), "use a random one, such as `openssl rand -hex 32` prints"),
    )
    return [
        f"{PREFIX}{name} has {counted(short, noun)} of less than {MIN_BYTES} bytes: somebody could guess "
        f"{'it' if short == 1 else 'them'}, and send deliveries; {remedy}"
        for name, noun, values, remedy in given
        if (short := sum(len(value.encode()) < MIN_BYTES for value in values))
    ]


def log_short_secrets(settings: Settings) -> None:
    """Log the advice, a line for each setting."""
    for advice in short_secret_advice(settings):
        log.warning("secret_too_short", extra={"advice": advice})
