"""The turns of suspects, which run alone, and of all other work."""

from datetime import datetime, timedelta


class Isolation:
    """Decides in one worker whose turn it is: that of suspects, or that of all other work.

    A suspect may have killed its worker, so nothing else may run beside it, and it must not stop everything for
    ever. When one is due, nothing else starts. The suspect starts when everything that runs has ended, or beside
    it after the time of one turn. Other suspects follow for half a turn. Then all other work has a turn, however
    many suspects are left. All moments are of the steady clock.
    """

    def __init__(self, turn: timedelta) -> None:
        self._turn = turn
        self._since: datetime | None = None
        """The start of the suspects' turn, or later the start of its first suspect; None in the turn of others."""
        self._started = False
        self._others_since: datetime | None = None

    @property
    def active(self) -> bool:
        """Tell whether it is the turn of suspects."""
        return self._since is not None

    def blocks_others(self, now: datetime) -> bool:
        """Tell whether nothing but a suspect may start."""
        return self._since is not None and self._within_turn(self._since, now)

    def check(self, now: datetime, *, due: bool) -> None:
        """Start the suspects' turn if a suspect is due, unless they have just had one."""
        if not due:
            self._since = None
        elif self._since is None and (self._others_since is None or not self._within_turn(self._others_since, now)):
            self._since, self._started = now, False

    def may_start(self, now: datetime, *, idle: bool) -> bool:
        """Return whether a suspect may start now; `idle` says that nothing runs. It may end their turn."""
        if self._since is None:
            return False
        if idle and not self._started:
            self._since, self._started = now, True
            return True
        if idle and now - self._since < self._turn / 2:
            return True
        if not idle and self.blocks_others(now):
            return False
        self._since, self._others_since = None, now
        return not self._started

    def found_none(self, now: datetime) -> None:
        """End the turn: another worker has the suspect, or the limits of its handler forbid it now."""
        self._since, self._others_since = None, now

    def _within_turn(self, since: datetime, now: datetime) -> bool:
        return now - since < self._turn
