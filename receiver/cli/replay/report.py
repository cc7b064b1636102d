"""The report of a replay: a line for each result, its difference from an earlier run, and a summary."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from receiver.cli.common.columns import wrapped
from receiver.cli.common.output import duration, terminal_width
from receiver.cli.common.progress import ProgressLines
from receiver.cli.replay.saving import SaveFile
from receiver.core.text import counted, escape_controls, short_id, shortened
from receiver.core.tracebacks import user_frames
from receiver.core.types import AttemptOutcome, HandlerName
from receiver.replay.comparison import Change, Earlier
from receiver.replay.local import LocalRun
from receiver.replay.outcomes import RunResult

_SHOWN_VALUE = 200
_BELOW = " " * 4
"""What stands before the further lines of a result."""


class ReplayReport:
    """Counts results, prints them, and writes them to a file."""

    def __init__(self, *, as_json: bool, save: SaveFile | None, earlier: Earlier | None) -> None:
        self.failed = False
        """Whether a handler failed; with an earlier run, whether one failed that did not fail there."""
        self._results: Counter[tuple[HandlerName, str]] = Counter()
        self._changes: Counter[Change] = Counter()
        self._as_json = as_json
        self._save = save
        self._earlier = earlier
        self._width = terminal_width()

    def add(self, ran: LocalRun, lines: ProgressLines) -> None:
        """Count one result and write its line."""
        outcome = RunResult.of(ran)
        self._results[ran.handler.name, outcome.outcome] += 1
        if self._save is not None:
            self._save.write(f"{outcome.line()}\n".encode())
        if self._earlier is None:
            self.failed |= outcome.failed
            self._print(lines, outcome.outcome, outcome, ran)
            return
        change, before = self._earlier.compare(outcome)
        self._changes[change] += 1
        self.failed |= outcome.failed and change in (Change.NEWLY_FAILING, Change.ADDED)
        self._print(lines, f"{change.value:<13}", outcome, ran, before, change)

    def summary(self, *, is_complete: bool) -> Sequence[str]:
        """Return the counts by handler and outcome, and the changes.

        Results that only the earlier run has are counted as missing only if this run is complete.
        """
        lines = [counted(self._results.total(), "result")]
        lines += [f"    {number:>11,}  {word:<10} {name}" for (name, word), number in sorted(self._results.items())]
        if self._earlier is not None:
            if is_complete:
                self._changes[Change.MISSING] = self._earlier.missing()
            lines += ["compared with the earlier run"]
            shown = [one for one in Change if is_complete or one is not Change.MISSING]
            lines += [f"    {self._changes[change]:>11,}  {change.value}" for change in shown]
        return lines

    def _print(
        self,
        lines: ProgressLines,
        word: str,
        outcome: RunResult,
        ran: LocalRun,
        before: str | None = None,
        change: Change | None = None,
    ) -> None:
        if self._as_json:
            more = {} if change is None else {"change": change.value, "before": before}
            lines.write(outcome.line(**more))
        elif change is not Change.SAME:
            _write(lines, word, outcome, ran, self._width)
            if change is not None:
                now = _cut(outcome.text)
                lines.write(f"    before   {_cut(before or 'nothing')}\n    now      {now}")


def _write(lines: ProgressLines, word: str, outcome: RunResult, ran: LocalRun, width: int | None) -> None:
    error = "" if outcome.error is None else f"  {outcome.error}"
    ran_for = duration(timedelta(seconds=outcome.seconds))
    cells = f"{word:<10} {outcome.type:<22} {short_id(outcome.id):<15} {outcome.handler}  {ran_for}{error}"
    below = [part for line in _where(ran) for part in wrapped(_BELOW, escape_controls(line), width)]
    lines.write("\n".join([*wrapped("", escape_controls(cells), width, below=_BELOW), *below]))


def _where(ran: LocalRun) -> Sequence[str]:
    """Return lines that show where a handler failed: its traceback, or of a time-out what the worker logs."""
    if ran.error is not None and ran.attempt.outcome is AttemptOutcome.TIMED_OUT:
        return user_frames(ran.error)  # the rest of the traceback is how we end a handler
    return [] if ran.traceback is None else ran.traceback.rstrip().split("\n")


def _cut(value: str) -> str:
    return escape_controls(shortened(value, _SHOWN_VALUE))
