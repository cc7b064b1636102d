"""Faults of the sender's side, drawn for one delivery after the other, the same ones for a seed."""

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
    """Piece by piece."""
    CUT = "cut"
    """The first half, and its own signature: authentic, and no envelope."""
    CLIPPED = "clipped"
    """The first half, under the signature of the whole."""
    FORGED = "forged"
    """Under a signature that is not the service's."""


REFUSABLE = frozenset({FaultKind.CUT, FaultKind.CLIPPED, FaultKind.FORGED})
"""What no receiver may take for a delivery."""


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request to a receiver. `body` is all of it, whatever is sent; `upload` is how long that takes."""

    body: bytes
    way: FaultKind = FaultKind.WHOLE
    upload: timedelta = _NONE

    @property
    def payload(self) -> bytes:
        """The bytes that are sent."""
        return self.body[: len(self.body) // 2] if self.way in (FaultKind.CUT, FaultKind.CLIPPED) else self.body


@dataclass(frozen=True, slots=True)
class Faulty:
    """What befalls one delivery: its first request, how long that is held back, and what comes beside it.

    With `again` it is sent once more after it was delivered; with `forgery` somebody else sends a forged request.
    """

    first: FaultKind = FaultKind.WHOLE
    upload: timedelta = _NONE
    held_back: timedelta = _NONE
    again: bool = False
    forgery: bool = False


def draw_faults(faults: Faults, schedule: SenderSchedule, seed: int) -> Iterator[Faulty]:
    """Yield what befalls each delivery, without an end.

    One is held back for up to the first pause of the schedule. A slow upload takes up to twice the time-out, so
    that half of them come too late. One that is both truncated and slow is truncated.
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
