"""All settings, read once from the environment, a `.env` file and the command line."""

from receiver.settings.environment import PREFIX, export_env_file
from receiver.settings.model import (
    Settings,
    as_variables,
    load_reading_settings,
    load_settings,
    log_short_secrets,
    short_secret_advice,
)
from receiver.settings.values import PLACEHOLDER

__all__ = [
    "PLACEHOLDER",
    "PREFIX",
    "Settings",
    "as_variables",
    "export_env_file",
    "load_reading_settings",
    "load_settings",
    "log_short_secrets",
    "short_secret_advice",
]
