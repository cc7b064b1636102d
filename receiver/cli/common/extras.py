"""What a command says when a package is missing that an extra installs."""

from receiver.errors import ConfigurationError


def missing_extra(error: ModuleNotFoundError, what: str, *, extra: str = "emulator") -> Exception:
    """Return the error to raise for a failed import: how to install the extra, or a fault of ours as it is."""
    if (error.name or "").startswith("receiver"):
        return error
    return ConfigurationError(f"{what} needs the package {error.name}: pip install 'crawl-receiver[{extra}]'")
