"""The exit codes of commands."""

from receiver.errors import ConfigurationError, ReceiverError, StoreError, StoreRefused

OK, FAILED, WRONG_USE, STORE_UNREACHABLE = 0, 1, 2, 3
INTERRUPTED = 130
"""128 and the number of SIGINT, as in shells."""
MEANINGS = {
    OK: "Done. Also if the reader of standard output went away.",
    FAILED: "Something failed: a handler in a replay, a damaged bundle, an unreadable body, a check, a call of the "
    "service, a write.",
    WRONG_USE: "Wrong use: an unknown option, a wrong value, a wrong setting, a wrong handler.",
    STORE_UNREACHABLE: "The store cannot be reached, or the database cannot be used.",
    INTERRUPTED: "Ctrl-C, or SIGTERM in `replay` and `simulate --to`. What was done until then stays done.",
}
"""What each exit code means, for the guide."""


def exit_code(error: ReceiverError) -> int:
    """Return the exit code for this kind of error."""
    if isinstance(error, StoreRefused | StoreError):
        return STORE_UNREACHABLE
    return WRONG_USE if isinstance(error, ConfigurationError) else FAILED
