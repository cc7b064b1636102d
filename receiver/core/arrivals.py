"""How many deliveries arrived, minute by minute."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many of the next deliveries arrived in each minute. All up to the seq `through` were counted."""

    minutes: Mapping[datetime, int]
    """The counts by the beginning of the minute, in UTC. A minute without a delivery is absent."""
    through: int
