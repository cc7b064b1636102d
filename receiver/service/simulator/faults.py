"""Faults of the sender's side, drawn for one delivery after the other. A seed always gives the same faults."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from receiver.service.schedule import SenderSchedule
from receiver.service.simulator.scenario import Faults

_NONE = timedelta(0)


class FaultKind(StrEnum):
    """How a request is put on the wire."""

    WHOLE = "whole"
    SLOW = "slow"
    """The whole body, piece by piece."""
    CUT = "cut"
    """The first half of the body with a signature of that half: authentic, and not an envelope."""
    CLIPPED = "clipped"
    """The first half of the body with the signature of the whole."""
    FORGED = "forged"
    """The whole body with a wrong signature."""


REFUSABLE = frozenset({FaultKind.CUT, FaultKind.CLIPPED, FaultKind.FORGED})
"""Requests that no receiver may accept as a delivery."""


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request to a receiver."""

    body: bytes
    """The whole body, also of a request that sends only a part of it."""
    way: FaultKind = FaultKind.WHOLE
    """How the request is put on the wire."""
    upload: timedelta = _NONE
    """How long the body takes to be sent."""

    @property
    def payload(self) -> bytes:
        """The bytes that are sent."""
        return self.body[: len(self.body) // 2] if self.way in (FaultKind.CUT, FaultKind.CLIPPED) else self.body


@dataclass(frozen=True, slots=True)
class Faulty:
    """What goes wrong with one delivery."""

    first: FaultKind = FaultKind.WHOLE
    """How the first request is put on the wire."""
    upload: timedelta = _NONE
    """How long the first request's body takes to be sent."""
    held_back: timedelta = _NONE
    """How long the first attempt is delayed."""
    again: bool = False
    """Whether it is sent once more after it was delivered."""
    forgery: bool = False
    """Whether a stranger sends a forged request beside it."""


def draw_faults(faults: Faults, schedule: SenderSchedule, seed: int) -> Iterator[Faulty]:
    """Yield the faults of one delivery after the other, without an end.

    A delivery is held back for at most the first pause of the schedule. A slow upload takes at most twice the
    time-out, so that half of them come too late. A delivery that is both truncated and slow is only truncated.
    """
    rng = random.Random(f"{seed} faults")  # noqa: S311 - repeatable, and no secret
    while True:
        again, late, forgery, cut, slow = (
            rng.random() < share
            for share in (faults.duplicates, faults.reordered, faults.forged, faults.truncated, faults.slow)
        )
        held_back, upload = rng.random() * schedule.pauses[0], rng.random() * 2 * schedule.timeout
        first = (
            rng.choice((FaultKind.CUT, FaultKind.CLIPPED)) if cut else FaultKind.SLOW if slow else FaultKind.WHOLE
        )
        yield Faulty(
            first,
            upload if first is FaultKind.SLOW else _NONE,
            held_back if late else _NONE,
            again,
            forgery,
        )
