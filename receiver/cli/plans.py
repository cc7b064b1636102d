"""Mass actions: what is going to be touched, the question, and the doing, which may be stopped and continued."""

import asyncio
import sys
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import Self, TypeVar

import click

from receiver.cli.main import drop_stdout
from receiver.cli.output import counted, flush, harmless, iso, note, write_line
from receiver.cli.progress import progress

T = TypeVar("T")

CHUNK = 500
"""Items that one transaction changes: acks wait for the write lock."""
FIRST = 3
_SHOWN = 10
_MOST_KINDS = 1_000
_IN_MEMORY = 2**20


class Plan:
    """What a mass action is about to touch: how many, of which kinds, the span, the first few, and the ids.

    It takes the same memory for three items as for millions: ids lie in a temporary file once they are many. `by`
    names the kinds that items are counted by.
    """

    def __init__(self, noun: str, *, by: Sequence[str]) -> None:
        self.noun = noun
        self.count = 0
        self._by = tuple(by)
        self._kinds: Counter[tuple[str, ...]] = Counter()
        self._first: list[str] = []
        self._oldest: datetime | None = None
        self._newest: datetime | None = None
        self._unwritten = array("q")
        self._ids = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - it lives as long as the plan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()

    def add(self, number: int, arrived: datetime, kinds: tuple[str, ...], line: Callable[[], str]) -> None:
        """Take one more item in, of these kinds; `line` is asked how to show it if it is among the first."""
        self.count += 1
        self._kinds[kinds if kinds in self._kinds or len(self._kinds) < _MOST_KINDS else self._others] += 1
        if self._oldest is None or arrived < self._oldest:
            self._oldest = arrived
        if self._newest is None or arrived > self._newest:
            self._newest = arrived
        if len(self._first) < FIRST:
            self._first.append(line())
        self._unwritten.append(number)
        if len(self._unwritten) == CHUNK:
            self._write()

    def counts(self, kind: str) -> Counter[str]:
        """Return how many items there are of each of a kind."""
        counts: Counter[str] = Counter()
        for names, number in self._kinds.items():
            counts[names[self._by.index(kind)]] += number
        return counts

    def lines(self, verb: str) -> Iterator[str]:
        """Yield the plan for people, harmless to a terminal."""
        yield f"{counted(self.count, self.noun)} to {verb}"
        for kind in self._by:
            counts = self.counts(kind)
            yield f"  by {kind}"
            for name, number in counts.most_common(_SHOWN):
                yield f"    {number:>11,}  {harmless(name)}"
            if (more := len(counts) - _SHOWN) > 0:
                yield f"                 and {more:,} more"
        if self._oldest and self._newest:
            oldest, newest = iso(self._oldest, "seconds"), iso(self._newest, "seconds")
            yield f"  arrived   {oldest}" + (f" to {newest}" if newest != oldest else "")
        for number, line in enumerate(self._first):
            yield f"  {'' if number else 'first':<9} {harmless(line)}"

    def chunks(self, *, backwards: bool = False) -> Iterator[Sequence[int]]:
        """Yield the ids, at most 500 at a time, in the order in which they were added or the other way round."""
        self._write()
        starts = range(0, self.count, CHUNK)
        for start in reversed(starts) if backwards else starts:
            self._ids.seek(start * self._unwritten.itemsize)
            found = array("q", self._ids.read(CHUNK * self._unwritten.itemsize))
            yield found[::-1] if backwards else found

    @property
    def _others(self) -> tuple[str, ...]:
        return ("others",) * len(self._by)

    def _write(self) -> None:
        self._ids.write(self._unwritten.tobytes())
        del self._unwritten[:]


def say(line: str) -> None:
    """Write a line to standard output. Whoever closed it has read enough, and the action goes on without."""
    try:
        write_line(line)
        flush()
    except BrokenPipeError:
        drop_stdout()


def agreed(question: str, *, yes: bool) -> bool:
    """Ask, unless that is answered; without anybody to ask it is wrong use."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: add --yes to do it, or --dry-run to see the plan only")
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        note("\nnothing was changed")
        raise
    if not answer:
        note("nothing was changed")
    return answer


async def carry_out(
    plan: Plan,
    change: Callable[[Sequence[int]], Awaitable[int]],
    *,
    done: str,
    backwards: bool = False,
    limited: bool = False,
) -> int:
    """Change everything in the plan, chunk by chunk, and return how many items were changed.

    When it is stopped, by Ctrl-C or by an error, the chunk at hand is finished, and standard error says how far it
    came and how to go on; for that, `limited` tells that the command had a limit.
    """
    seen = changed = 0

    async def change_chunk(ids: Sequence[int]) -> None:
        nonlocal seen, changed
        changed += await change(ids)
        seen += len(ids)

    try:
        with progress(done, plan.count) as advance:
            for ids in plan.chunks(backwards=backwards):
                await to_its_end(change_chunk(ids))
                if seen < plan.count:
                    advance(len(ids))
    except BaseException:
        note(
            f"stopped: {seen:,} of {counted(plan.count, plan.noun)} were looked at, {changed:,} {done}; "
            "the same command goes on with the rest" + (f" (--limit {plan.count - seen})" if limited else "")
        )
        raise
    return changed


async def to_its_end(step: Awaitable[T]) -> T:
    """Await something that is finished even when we are asked to stop: a transaction is not undone by leaving."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
