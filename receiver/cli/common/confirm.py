"""Mass actions: what is going to be touched, the question, and the doing, which may be stopped and continued."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import click

from receiver.cli.common.output import flush, iso, note, write_line
from receiver.cli.common.progress import progress
from receiver.cli.common.stdout import drop_stdout
from receiver.core.text import counted, escape_controls

T = TypeVar("T")

CHUNK = 500
"""Items that one transaction changes: acks wait for the write lock."""
FIRST = 3
_SHOWN = 10


def count_lines(kind: str, counts: Mapping[str, int], others: int) -> Iterator[str]:
    """Yield how many there are of each of a kind, the most frequent first; `others` were not counted apart."""
    yield f"  by {kind}"
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    for name, number in ordered[:_SHOWN]:
        yield f"    {number:>11,}  {escape_controls(name)}"
    if more := max(0, len(ordered) - _SHOWN) + (others > 0):
        yield f"                 and {more:,} more"


def span_and_first(first_at: datetime | None, last_at: datetime | None, first: Iterable[str]) -> Iterator[str]:
    """Yield from when to when it arrived, and the first few lines of it, harmless to a terminal."""
    if first_at and last_at:
        oldest, newest = iso(first_at, "seconds"), iso(last_at, "seconds")
        yield f"  arrived   {oldest}" + (f" to {newest}" if newest != oldest else "")
    for number, line in enumerate(first):
        yield f"  {'' if number else 'first':<9} {escape_controls(line)}"


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
    chunks: AsyncIterator[Sequence[int]],
    change: Callable[[Sequence[int]], Awaitable[int]],
    *,
    planned: int,
    noun: str,
    done: str,
    limited: bool = False,
) -> int:
    """Change everything in the chunks, which are that many items, and return how many were changed.

    When it is stopped, by Ctrl-C or by an error, the chunk at hand is finished, and standard error says how far it
    came and how to go on; for that, `limited` tells that the command had a limit.
    """
    seen = changed = 0

    async def change_chunk(ids: Sequence[int]) -> None:
        nonlocal seen, changed
        changed += await change(ids)
        seen += len(ids)

    try:
        with progress(done, planned) as advance:
            async for ids in chunks:
                await to_its_end(change_chunk(ids))
                if seen < planned:
                    advance(len(ids))
    except BaseException:
        note(
            f"stopped: {seen:,} of {counted(planned, noun)} were looked at, {changed:,} {done}; "
            "the same command goes on with the rest" + (f" (--limit {planned - seen})" if limited else "")
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
