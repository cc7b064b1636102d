"""Handlers run here and now: a line for each result, a summary, and how they compare with an earlier run."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from receiver.app import open_replay
from receiver.cli.main import FAILED, INTERRUPTED, OK
from receiver.cli.output import counted, duration, harmless, short_id, write_bytes
from receiver.cli.plans import say
from receiver.cli.progress import Lines, lines_and_progress
from receiver.cli.replay import Replaying
from receiver.cli.stopping import stopping_at_interrupt
from receiver.clock import SystemClock
from receiver.context import AskOnce
from receiver.errors import ConfigurationError
from receiver.keeping import Cursor, Recorded
from receiver.ports import Controls
from receiver.replay.frozen import FrozenTime
from receiver.replay.here import Here, Ran
from receiver.replay.network import no_network
from receiver.replay.outcomes import Change, Earlier, Outcome, header
from receiver.types import HandlerName, WorkState

_TOGETHER = 200
_SHOWN_VALUE = 200


class Report:
    """Counts results and writes them: to the terminal, to a file, to the store."""

    def __init__(
        self, lines: Lines, *, as_json: bool, save: IO[bytes] | None, earlier: Earlier | None, record: bool
    ) -> None:
        self.results: Counter[tuple[HandlerName, str]] = Counter()
        self.changes: Counter[Change] = Counter()
        self.to_record: list[Recorded] = []
        self._lines = lines
        self._as_json = as_json
        self._save = save
        self._earlier = earlier
        self._record = record

    @property
    def failed(self) -> bool:
        """Whether the exit code has to say so: a failure, or with an earlier run one that is new."""
        if self._earlier is not None:
            return bool(self.changes[Change.NEWLY_FAILING])
        return any(word != "succeeded" for _, word in self.results)

    def add(self, ran: Ran) -> None:
        """Take one result in."""
        outcome = Outcome.of(ran)
        self.results[ran.handler.name, outcome.outcome] += 1
        if self._save is not None:
            self._save.write(outcome.line())
        if self._record:
            state = WorkState.DEAD if outcome.failed else WorkState.DONE
            self.to_record.append(Recorded(ran.stored.seq, ran.handler.name, ran.attempt, state))
        change, before = (None, None) if self._earlier is None else self._earlier.compare(outcome)
        if change is not None:
            self.changes[change] += 1
        if self._as_json:
            write_bytes(outcome.line())
        elif change is None:
            self._write(outcome.outcome, outcome, ran)
        elif change is not Change.SAME:
            self._write(change.value, outcome, ran)
            self._lines.write(f"    before   {_cut(before or 'nothing')}\n    now      {_cut(outcome.shown)}")

    def summary(self) -> Sequence[str]:
        """Return the results by handler and outcome, and what changed."""
        lines = [f"{counted(self.results.total(), 'result')}"]
        lines += [f"    {number:>11,}  {word:<10} {name}" for (name, word), number in sorted(self.results.items())]
        if self._earlier is not None:
            self.changes[Change.MISSING] = self._earlier.missing()
            lines += ["compared with the earlier run"]
            lines += [f"    {self.changes[change]:>11,}  {change.value}" for change in Change]
        return lines

    def _write(self, word: str, outcome: Outcome, ran: Ran) -> None:
        told = "" if outcome.error is None else f"  {outcome.error}"
        took = duration(timedelta(seconds=outcome.seconds))
        cells = f"{word:<10} {outcome.type:<22} {short_id(outcome.key):<15} {outcome.handler}  {took}{told}"
        self._lines.write(harmless(cells))
        if ran.traceback is not None:
            text = harmless(ran.traceback.rstrip(), keep="\n")
            self._lines.write("\n".join(f"    {line}" for line in text.splitlines()))


async def run_here(replaying: Replaying) -> int:
    """Run the handlers; return the exit code."""
    options, settings = replaying.options, replaying.settings
    frozen = FrozenTime() if options.frozen_time else None
    with ExitStack() as files:
        save = None if options.save is None else files.enter_context(_created(options.save))
        earlier = None if options.compare is None else files.enter_context(_earlier(options.compare))
        async with AsyncExitStack() as stack:
            controls = await stack.enter_async_context(replaying.store.controls()) if options.record else None
            ask_once: AskOnce = _asked_here()
            if options.record:
                queue = await stack.enter_async_context(replaying.store.queue())
                ask_once = lambda handler, key, now: queue.once(handler, key, now=now)  # noqa: E731
            if options.no_network:
                stack.enter_context(no_network())
            here = await stack.enter_async_context(
                open_replay(settings, replaying.router, replaying.choice.handlers, ask_once=ask_once, frozen=frozen)
            )
            if frozen is not None:
                stack.enter_context(frozen.shown_to(Path.cwd()))
            lines = stack.enter_context(lines_and_progress("replaying", replaying.plan.count))
            report = Report(lines, as_json=options.as_json, save=save, earlier=earlier, record=controls is not None)
            stopped = await _run_all(replaying, here, report, lines, controls)
        if not options.as_json:
            for line in report.summary():
                say(line)
    if stopped:
        return INTERRUPTED
    return FAILED if report.failed else OK


async def _run_all(
    replaying: Replaying, here: Here, report: Report, lines: Lines, controls: Controls | None
) -> bool:
    """Run everything that was chosen, unless somebody stops it; return whether that was so."""
    place = place_now = replaying.choice.after
    since = 0
    try:
        with stopping_at_interrupt("this delivery") as stop:
            async for chosen in replaying.choice.of(replaying.reports):
                if chosen.fits:
                    for ran in await here.run(chosen.stored, chosen.only):
                        report.add(ran)
                place_now = Cursor.at(chosen.stored, by_job=replaying.choice.by_job)
                since += 1
                if not here.waiting:
                    place = place_now
                if since == _TOGETHER:
                    lines.advance(since)
                    since = 0
                    await _record(report, controls)
                if stop.is_set():
                    break
            for ran in await here.finish():
                report.add(ran)
                place = place_now
            await _record(report, controls)
            if not stop.is_set():
                return False
    except BaseException:
        replaying.tell_how_to_go_on(place)
        raise
    replaying.tell_how_to_go_on(place)
    return True


async def _record(report: Report, controls: Controls | None) -> None:
    if controls is not None and report.to_record:
        await controls.record(report.to_record, now=SystemClock().now())
        report.to_record.clear()


def _asked_here() -> AskOnce:
    """Answer `ctx.once` for this run alone: what handlers did before it is not asked for."""
    asked: set[tuple[HandlerName, str]] = set()

    async def ask(handler: HandlerName, key: str, now: datetime) -> bool:
        first = (handler, key) not in asked
        asked.add((handler, key))
        return first

    return ask


def _created(path: Path) -> IO[bytes]:
    try:
        file = path.open("wb")
        file.write(header())
    except OSError as exc:
        raise ConfigurationError(f"cannot write {harmless(str(path))}: {exc.strerror}") from None
    return file


def _earlier(path: Path) -> Earlier:
    try:
        with path.open("rb") as file:
            return Earlier(file, harmless(str(path)))
    except OSError as exc:
        raise ConfigurationError(f"cannot read {harmless(str(path))}: {exc.strerror}") from None


def _cut(told: str) -> str:
    return harmless(told if len(told) <= _SHOWN_VALUE else told[:_SHOWN_VALUE] + "…")
