"""The nine signals and their records, as they are promised to subscribers."""

import dataclasses
from typing import Any

import blinker

from receiver.core.types import DeliveryKey, HandlerName, Trigger
from receiver.signals import Signal
from receiver.signals import contracts as signals
from tests.cases import for_each
from tests.doubles import NOON

PROMISED = {
    "delivery_accepted": signals.DeliveryAccepted,
    "delivery_duplicated": signals.DeliveryDuplicated,
    "delivery_refused": signals.DeliveryRefused,
    "attempt_started": signals.AttemptStarted,
    "attempt_succeeded": signals.AttemptSucceeded,
    "attempt_failed": signals.AttemptFailed,
    "work_done": signals.WorkDone,
    "work_dead": signals.WorkDead,
    "job_asked": signals.JobAsked,
}


def test_the_promised_signals_are_there_and_no_others() -> None:
    """Each is a blinker signal of its own."""
    found = {name: value for name, value in vars(signals).items() if isinstance(value, blinker.Signal)}

    assert found.keys() == PROMISED.keys()
    assert len({id(signal) for signal in found.values()}) == len(PROMISED)


@for_each(("name", "record"), PROMISED.items())
def test_each_signal_says_what_it_passes_and_which_process_emits_it(name: str, record: type[Any]) -> None:
    """Its docstring says so, as those of blinker's signals do."""
    signal = getattr(signals, name)

    assert isinstance(signal, Signal)
    assert signal.__doc__ is not None
    assert record.__name__ in signal.__doc__
    assert ("Web process" if name.startswith("delivery") else "Worker") in signal.__doc__


@for_each("record", PROMISED.values())
def test_a_record_is_frozen_slotted_and_holds_no_body(record: type[Any]) -> None:
    """Its fields are small and not secret."""
    names = {field.name for field in dataclasses.fields(record)}

    assert record.__dataclass_params__.frozen
    assert all("__slots__" in vars(one) for one in record.__mro__[:-1])
    assert record.__doc__
    assert not names & {"body", "headers", "event", "traceback", "delivery"}


def test_the_public_names_are_sorted_and_there() -> None:
    """Each can be imported, none twice."""
    assert signals.__all__ == sorted(set(signals.__all__))
    for name in signals.__all__:
        assert hasattr(signals, name)
    assert set(signals.__all__) >= {*PROMISED, *(record.__name__ for record in PROMISED.values())}


def test_the_older_name_of_the_id_still_reads_it() -> None:
    """Subscribers written before `id` was the name read `key`."""
    accepted = signals.DeliveryAccepted(
        id=DeliveryKey("w-1"), type="crawl.page", job_id=None, size=5, received_at=NOON
    )
    done = signals.WorkDone(
        work_id=1,
        handler=HandlerName("h"),
        id=DeliveryKey("w-2"),
        type="crawl.page",
        job_id=None,
        attempt=1,
        trigger=Trigger.DELIVERY,
        at=NOON,
        received_at=NOON,
    )

    assert (accepted.key, done.key) == ("w-1", "w-2")


def test_the_imported_deliveries_can_be_read_by_their_older_name() -> None:
    """Programs that use `brought_in` still work."""
    asked = signals.JobAsked(job_id="j", reason="ended", outcome="brought_in", imported={"crawl.page": 2}, at=NOON)

    assert asked.brought_in == {"crawl.page": 2}
