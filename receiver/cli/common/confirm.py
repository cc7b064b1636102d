"""Actions on many items: the plan, the question, and the change, which can be stopped and continued."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import click

from receiver.cli.common.output import flush, note, progress, terminal_width, write_line
from receiver.cli.common.stdout import StdoutClosed, drop_stdout
from receiver.cli.common.tables import wrapped
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import local_time
from receiver.core.deliveries import StoredDelivery
from receiver.core.text import counted, escape_controls, short_id
from receiver.core.units import shown_size

T = TypeVar("T")

_SHOWN = 10


def count_lines(kind: str, counts: Mapping[str, int], others: int) -> Iterator[str]:
    """Yield a count for each name of a kind, the most frequent first; `others` is the number of further items."""
    yield f"  by {kind}"
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    for name, number in ordered[:_SHOWN]:
        yield f"    {number:>11,}  {escape_controls(name)}"
    if more := max(0, len(ordered) - _SHOWN) + (others > 0):
        yield f"                 and {more:,} more"


def span_and_first(
    first_at: datetime | None, last_at: datetime | None, first: Iterable[str], *, width: int | None = None
) -> Iterator[str]:
    """Yield the span of time, and the first few examples, safe for a terminal, and wrapped if it has a width."""
    if first_at and last_at:
        oldest, newest = local_time(first_at), local_time(last_at)
        yield f"  arrived   {oldest}" + (f" to {newest}" if newest != oldest else "")
    for number, line in enumerate(first):
        start = f"  {'' if number else 'first':<9} "
        yield from wrapped(start, escape_controls(line), width, below=" " * (len(start) + 2))


def say(line: str) -> None:
    """Write a line to standard output. If the reader has closed it, the action continues without output."""
    try:
        write_line(line)
        flush()
    except StdoutClosed:
        drop_stdout()


def say_part(name: str, text: str) -> None:
    """Write a part of a plan, with its name in front; on a terminal it is wrapped below its text."""
    for line in wrapped(f"  {name:<9} ", text, terminal_width()):
        say(line)


def agreed(question: str, *, yes: bool) -> bool:
    """Ask, unless `yes` is the answer already; raise UsageError without a terminal."""
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask: add --yes to continue, or --dry-run to see the plan")
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
    """Change the items of all chunks, and return how many were changed. `planned` is the number of items.

    If Ctrl-C or an error stops it, the current chunk is finished, and standard error says how many were changed and
    how to continue. `limited` means that the command had a --limit.
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
            f"stopped: {seen:,} of {counted(planned, noun)} were checked, {changed:,} {done}; "
            "the same command continues with the rest" + (f" (--limit {planned - seen})" if limited else "")
        )
        raise
    return changed


async def to_its_end(step: Awaitable[T]) -> T:
    """Await a step that also finishes if this task is cancelled: a transaction continues without its caller."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def plan_lines(
    plan: DeliveryPlan,
    verb: str,
    *,
    first: Sequence[StoredDelivery] = (),
    by: Mapping[str, Mapping[str, int]] = {},
    width: int | None = None,
) -> Iterator[str]:
    """Yield how many events there are, in all, by type and by each key of `by`; their span of time, examples.

    Examples are wrapped if a width is given.
    """
    yield f"{counted(plan.count, 'event')} to {verb}, {shown_size(plan.size)}"
    if plan.without_body:
        yield f"  {plan.without_body:,} of them are skipped: their bodies were pruned"
    for kind, counts in {"type": plan.types, **by}.items():
        yield from count_lines(kind, counts, plan.others if kind == "type" else 0)
    examples = (
        f"{local_time(delivery.received_at)}  {delivery.type}  {short_id(delivery.key)}"
        for delivery in (one.delivery for one in first)
    )
    yield from span_and_first(plan.first_at, plan.last_at, examples, width=width)
