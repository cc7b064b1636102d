"""Tools for tests of handlers: events, the handlers called in memory, and the whole receiver in virtual time.

Functions work in every test. For the fixtures, write this into the `conftest.py` at the root of your tests:

    pytest_plugins = ["receiver.testing"]

The fixtures are `receiver_router` and `receiver_resources` (write your own), `receiver_clock`, `receiver_settings`,
`receiver_app`, `receiver_sender`, `receiver_work_items`, and with the extra `emulator` also `receiver_sites` (write
your own) and `receiver_emulator`; `pytest --fixtures` explains them. The plugin that runs the test, anyio's or
pytest-asyncio, also runs the async fixtures. `open_receiver` and `open_sender` are the same as context managers,
for any test.

Installation alone registers nothing. A test run without that line imports nothing of this package. A test run with
it starts to measure coverage before the import. PYTEST_DONT_REWRITE: tests may import this before pytest does.
"""

import importlib
from typing import TYPE_CHECKING, Any

from receiver.testing.clock import SteppedClock
from receiver.testing.delivering import HandlerRun, deliver, deliver_async
from receiver.testing.recording import Call, Recorded, record_calls
from receiver.testing.samples import Sample, job_story, sample
from receiver.testing.work import Work, assert_dead, assert_handled

if TYPE_CHECKING:
    from receiver.stores.memory import MemoryStore
    from receiver.testing.application import RunningReceiver, open_receiver, settings_for_test
    from receiver.testing.emulating import RunningEmulator, open_emulator
    from receiver.testing.sender import ScheduledSender, Sent, SentAttempt, open_sender

pytest_plugins = ("receiver.testing.fixtures",)

__all__ = [
    "Call",
    "HandlerRun",
    "MemoryStore",
    "Recorded",
    "RunningEmulator",
    "RunningReceiver",
    "Sample",
    "ScheduledSender",
    "Sent",
    "SentAttempt",
    "SteppedClock",
    "Work",
    "assert_dead",
    "assert_handled",
    "deliver",
    "deliver_async",
    "job_story",
    "open_emulator",
    "open_receiver",
    "open_sender",
    "record_calls",
    "sample",
    "settings_for_test",
]

_LATE = {
    "receiver.testing.application": ("RunningReceiver", "open_receiver", "settings_for_test"),
    "receiver.stores.memory": ("MemoryStore",),
    "receiver.testing.emulating": ("RunningEmulator", "open_emulator"),
    "receiver.testing.sender": ("ScheduledSender", "Sent", "SentAttempt", "open_sender"),
}


def __getattr__(name: str) -> Any:
    """Import modules with an HTTP client or a store only when they are used."""
    for module, names in _LATE.items():
        if name in names:
            if module == "receiver.testing.emulating":
                importlib.import_module("receiver.service.extras").require_emulator()
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
