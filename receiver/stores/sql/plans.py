"""Plans: count what a mass action would touch."""

from collections.abc import Sequence

from receiver.core.bulk import MAX_KINDS, Cursor, DeliveryPlan, WorkKind, WorkPlan
from receiver.core.clock import from_micros
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import HandlerName, WorkState
from receiver.core.work import WorkFilter
from receiver.stores.sql.connection import SqlConnection, Values
from receiver.stores.sql.statements import plans as statements
from receiver.stores.sql.statements.reads import Reads

MAX_COUNTED_KINDS = 24
"""Up to so many kinds, each has a count with a condition of its own. GROUP BY would sort all rows, which takes
longer than reading them twice."""

_BEHIND = {
    (False, False): "d.seq > :after",
    (False, True): "d.seq > :after",
    (True, False): "d.job_id IS NULL AND d.seq > :after",
    (True, True): "(d.job_id IS NULL OR (d.job_id, d.seq) > (:after_job, :after))",
}
"""The condition for rows behind a place, by two questions: is the order that of jobs, and has the place a job?"""


def plan(
    connection: SqlConnection,
    reads: Reads,
    wanted: DeliveryFilter,
    after: Cursor | None = None,
    by_job: bool = False,
    *,
    only: Sequence[str] = (),
) -> DeliveryPlan:
    """Return what an action on the wanted deliveries would touch; `only` are more conditions on them, as `d`."""
    if wanted.text is not None:
        reads.dialect.require_index(connection)
    source, values = reads.filters.all_at_once(wanted)
    narrower = list(only)
    if after is not None:
        narrower.append(_BEHIND[by_job, after.job_id is not None])
        values |= {"after": after.seq, "after_job": after.job_id}
    if narrower:
        source = statements.NARROWED.format(source=source, conditions=" AND ".join(narrower))
    sums = "sum(d.size), count(d.pruned_at), min(d.received_at), max(d.received_at)"
    (count, size, pruned, *span), counts = _counted(
        connection, source, values, sums, kinds=("d.type",), among="deliveries AS d"
    )
    first_at, last_at = map(from_micros, span) if count else (None, None)
    types = {kind: number for (kind,), number in counts.items()}
    return DeliveryPlan(count, size or 0, first_at, last_at, types, count - sum(types.values()), pruned)


def work_plan(connection: SqlConnection, reads: Reads, wanted: WorkFilter) -> WorkPlan:
    """Return what an action on the wanted work items would touch."""
    source, values = reads.filters.all_work_at_once(wanted)
    sums = "min(w.id), max(w.id), min(w.received_at), max(w.received_at)"
    (count, first_id, last_id, *span), counts = _counted(
        connection, f"{source} AS w WHERE TRUE", values, sums, kinds=("w.handler", "w.type", "w.state")
    )
    first_at, last_at = map(from_micros, span) if count else (None, None)
    kinds = {
        WorkKind(HandlerName(handler), kind, WorkState(state)): number
        for (handler, kind, state), number in counts.items()
    }
    return WorkPlan(count, first_id or 0, last_id or 0, first_at, last_at, kinds, count - sum(kinds.values()))


def _counted(
    connection: SqlConnection,
    source: str,
    values: Values,
    sums: str,
    *,
    kinds: tuple[str, ...],
    among: str | None = None,
) -> tuple[tuple[int, ...], dict[tuple[str, ...], int]]:
    """Return how many rows a source has, with sums over them, and the numbers of the most frequent kinds.

    `among` is another source that has at least these kinds, and that is read faster.
    """
    columns = ", ".join(kinds)
    found = connection.execute(
        statements.KINDS.format(kinds=columns, source=among or source, most=MAX_COUNTED_KINDS + 1), values
    ).fetchall()
    if len(found) > MAX_COUNTED_KINDS:
        row = connection.execute(statements.SUMS.format(sums=sums, source=source), values).fetchone()
        by_kind = statements.BY_KIND.format(kinds=columns, source=source, most=MAX_KINDS)
        return row, {tuple(kind): number for *kind, number in connection.execute(by_kind, values)}
    of_each = [_count_of(kinds, number) for number in range(len(found))]
    named = {f"kind_{n}_{m}": value for n, kind in enumerate(found) for m, value in enumerate(kind)}
    everything = statements.SUMS.format(sums=", ".join([sums, *of_each]), source=source)
    row = connection.execute(everything, values | named).fetchone()
    end = len(row) - len(found)
    counts = sorted(zip(found, row[end:], strict=True), key=lambda one: (-one[1], one[0]))
    return row[:end], {kind: number for kind, number in counts if number}


def _count_of(kinds: tuple[str, ...], number: int) -> str:
    conditions = [f"{column} = :kind_{number}_{place}" for place, column in enumerate(kinds)]
    return f"count(*) FILTER (WHERE {' AND '.join(conditions)})"
