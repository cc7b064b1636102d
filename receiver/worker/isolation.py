"""When suspects run alone, and when it is the turn of everything else."""

from datetime import datetime, timedelta

_NONE = timedelta(0)


class Isolation:
    """Turns of suspects and of everything else, in one worker.

    What may have killed its worker must not be able to take anything else with it, and must not hold up everything
    for ever. So when one is due nothing else begins, and it begins when what runs has ended, or after a turn's time
    beside it. Others follow it for half a turn; then all else has a turn, however many suspects are left.
    """

    def __init__(self, turn: timedelta) -> None:
        self._turn = turn
        self._since: datetime | None = None
        """When it began to wait until nothing else runs, or then, when the first suspect began."""
        self._begun = False
        self._rests_since: datetime | None = None

    @property
    def wanted(self) -> bool:
        """Tell whether it is the turn of suspects."""
        return self._since is not None

    def holds(self, now: datetime) -> bool:
        """Tell whether nothing else may begin."""
        return self._since is not None and self._within_turn(self._since, now)

    def look(self, now: datetime, *, due: bool) -> None:
        """Take note of whether a suspect is due. It is its turn, unless that has just been."""
        if not due:
            self._since = None
        elif self._since is None and (self._rests_since is None or not self._within_turn(self._rests_since, now)):
            self._since, self._begun = now, False

    def begins(self, now: datetime, *, idle: bool) -> bool:
        """Return whether a suspect is to begin now; `idle` says that nothing runs. May end the suspects' turn."""
        if self._since is None:
            return False
        if idle and not self._begun:
            self._since, self._begun = now, True
            return True
        if idle and now - self._since < self._turn / 2:
            return True
        if not idle and self.holds(now):
            return False
        self._since, self._rests_since = None, now
        return not self._begun

    def found_none(self, now: datetime) -> None:
        """Say that there was none to begin: another worker has it, or its handler's limits forbid it now."""
        self._since, self._rests_since = None, now

    def _within_turn(self, since: datetime, now: datetime) -> bool:
        return _NONE <= now - since < self._turn  # the clock may have been set back
