"""Events whose bodies the store cannot read: a command does the others, and says at its end what it left out."""

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.output import note
from receiver.core.deliveries import StoredDelivery
from receiver.core.text import counted, escape_controls

_NAMED = 3


class UnreadableEvents:
    """Counts the events that a command leaves out, and keeps why the first few cannot be read."""

    def __init__(self) -> None:
        self.count = 0
        self._reasons: list[str] = []

    def leaves_out(self, stored: StoredDelivery) -> bool:
        """Tell whether the body of an event cannot be read, and count it then."""
        if not stored.unreadable:
            return False
        self.count += 1
        if len(self._reasons) < _NAMED:
            self._reasons.append(stored.unreadable)
        return True

    def tell(self) -> int:
        """Write to standard error how many were left out, and name the first. Return the exit code for that."""
        if not self.count:
            return OK
        note(f"left out {counted(self.count, 'event')}: the store cannot read their bodies")
        for reason in self._reasons:
            note(f"  {escape_controls(reason)}")
        if self.count > len(self._reasons):
            note(f"  and {self.count - len(self._reasons):,} more")
        return FAILED
