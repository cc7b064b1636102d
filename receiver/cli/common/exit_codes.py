"""The exit codes of commands."""

from receiver.errors import ConfigurationError, ReceiverError, StoreError, StoreRefused

OK, FAILED, WRONG_USE, STORE_UNREACHABLE = 0, 1, 2, 3
INTERRUPTED = 130
"""128 and the number of SIGINT, as in shells."""


def exit_code(error: ReceiverError) -> int:
    """Return the exit code for this kind of error."""
    if isinstance(error, StoreRefused | StoreError):
        return STORE_UNREACHABLE
    return WRONG_USE if isinstance(error, ConfigurationError) else FAILED
