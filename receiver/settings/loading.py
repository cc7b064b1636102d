"""Settings from this process's environment, and the environment for another process."""

from pathlib import Path
from typing import Any

from receiver.settings.environment import PREFIX
from receiver.settings.model import Settings
from receiver.settings.values import as_text


def load_settings(env_file: Path = Path(".env"), /, **flags: Any) -> Settings:
    """Read all settings. A flag that is None is ignored. Raises ConfigurationError with a message of one line."""
    given = {name: value for name, value in flags.items() if value is not None}
    return Settings(_env_file=env_file, **given)


def load_reading_settings(**flags: Any) -> Settings:
    """Read all settings but the secrets, for a command that only reads: those may still be the placeholder."""
    return load_settings(secrets=(), **flags)


def as_variables(settings: Settings) -> dict[str, str]:
    """Return the variables with which another process has the same settings: those that are not defaults.

    They contain secrets.
    """
    return {
        f"{PREFIX}{name.upper()}": written
        for name in sorted(settings.model_fields_set)
        if (written := as_text(getattr(settings, name))) is not None
    }
