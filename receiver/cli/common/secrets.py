"""The secrets of the settings, for commands that need one."""

from receiver.errors import ConfigurationError
from receiver.settings import PREFIX, load_settings


def configured_secrets() -> tuple[str, ...]:
    """Return the webhook secrets; raise ConfigurationError if there is none."""
    secrets = load_settings().plain_secrets()
    if not secrets:
        raise ConfigurationError(f"no secret is set: put the webhook secret of your account in {PREFIX}SECRETS")
    return secrets
