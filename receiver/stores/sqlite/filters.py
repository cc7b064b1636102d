"""From the filters of a report to the statement that applies them."""

import json
from collections.abc import Sequence

from receiver.core.clock import to_micros
from receiver.core.deliveries import DeliveryFilter
from receiver.core.quarantine import QuarantineFilter
from receiver.core.search import Phrase, parse_query
from receiver.core.types import DeliveryState, WorkState
from receiver.core.work import WorkFilter
from receiver.stores.sqlite import report_statements as statements
from receiver.stores.sqlite.statements import ROUTED

_Condition = tuple[str, str, object]
_Values = dict[str, object]


def delivery_listing(wanted: DeliveryFilter, narrower: str = "") -> tuple[str, _Values]:
    """Return the statement and its values; `before`, `rows` and those of `narrower` are still missing."""
    sql, values = _joined(_of_delivery(wanted) + _of_its_work(wanted))
    sql = f"{sql} {narrower}"
    state = ""
    if wanted.state is not None:
        state, values["state"] = "WHERE state = :state", wanted.state.value
    if wanted.text is None:
        return statements.LIST.format(conditions=sql, state=state), values
    values["text"] = _expression(parse_query(wanted.text))
    return statements.LIST_FOUND.format(conditions=sql, state=state), values


def work_listing(wanted: WorkFilter) -> tuple[str, _Values]:
    """Return the statement and its values; `before` and `rows` are still missing."""
    sql, values = _joined(_of_work(wanted))
    return statements.LIST_WORK.format(conditions=sql), values


def work_ids(wanted: WorkFilter, *, newest_first: bool) -> tuple[str, _Values]:
    """Return the statement and its values; `first`, `last` and `rows` are still missing."""
    sql, values = _joined(_of_work(wanted))
    return statements.WORK_IDS.format(conditions=sql, order="DESC" if newest_first else "ASC"), values


def all_work_at_once(wanted: WorkFilter) -> tuple[str, _Values]:
    """Return the wanted work items as a source of rows, and the values, for one look at all of them."""
    sql, values = _joined(_of_work(wanted))
    columns = "w.id, w.handler, d.type, w.state, d.received_at"
    rows = f"SELECT {columns} FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq WHERE TRUE {sql}"
    if wanted.limit is not None:
        rows += " ORDER BY w.id DESC LIMIT :limit"
        values["limit"] = wanted.limit
    return f"({rows})", values


def refused_listing(wanted: QuarantineFilter) -> tuple[str, _Values]:
    """Return the statement and its values; `before` and `rows` are still missing."""
    conditions: list[_Condition] = []
    if wanted.reason is not None:
        conditions.append(("AND reason = :reason", "reason", wanted.reason))
    if wanted.since is not None:
        conditions.append(("AND received_at >= :since", "since", to_micros(wanted.since)))
    if wanted.until is not None:
        conditions.append(("AND received_at < :until", "until", to_micros(wanted.until)))
    sql, values = _joined(conditions)
    return statements.LIST_REFUSED.format(conditions=sql), values


def row_by_row(wanted: DeliveryFilter) -> tuple[str, _Values]:
    """Return conditions on `d`, and their values, for a statement that looks at some deliveries at a time."""
    conditions = _of_delivery(wanted) + _of_its_work(wanted) + _of_its_words(wanted)
    if wanted.state is not None:
        conditions.append((f"AND {statements.STATE} = :state", "state", wanted.state.value))
    return _joined(conditions)


def all_at_once(wanted: DeliveryFilter) -> tuple[str, _Values]:
    """Return the wanted deliveries as a source of rows named `d`, and the values, for one look at all of them.

    What is asked of columns of work items is answered for all deliveries together, as it takes 4 times as long one
    by one; what their index by delivery has is asked for each.
    """
    conditions = _of_delivery(wanted) + _of_its_words(wanted)
    if wanted.handler == "*" and not wanted.failed:
        conditions.append((f"AND EXISTS ({_ITS_WORK})", "handler", "*"))
    elif wanted.handler is not None or wanted.failed:
        sql = f"AND d.seq IN (SELECT w.delivery_seq FROM work_items AS w WHERE {_work_condition(wanted)})"
        conditions.append((sql, "handler", as_glob(wanted.handler or "*")))
    sql, values = _joined(conditions)
    if wanted.state is not None:
        sql += " " + _STATES[wanted.state]
    if wanted.limit is None:
        return f"deliveries AS d WHERE TRUE {sql}", values
    values["limit"] = wanted.limit
    return f"(SELECT d.* FROM deliveries AS d WHERE TRUE {sql} ORDER BY d.seq DESC LIMIT :limit) AS d", values


_ITS_WORK = "SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq"
_STATES = {
    DeliveryState.NEW: f"AND d.seq > ({ROUTED})",
    DeliveryState.WORKING: f"AND d.seq <= ({ROUTED}) AND d.seq IN ({statements.OPEN_SEQS})",
    DeliveryState.DEAD: f"AND d.seq <= ({ROUTED}) AND d.seq IN ({statements.DEAD_SEQS}) "
    f"AND NOT EXISTS ({_ITS_WORK} AND w.state NOT IN ('done', 'dead', 'skipped'))",
    DeliveryState.DONE: f"AND d.seq <= ({ROUTED}) "
    f"AND NOT EXISTS ({_ITS_WORK} AND w.state NOT IN ('done', 'skipped'))",
}


def _of_its_work(wanted: DeliveryFilter) -> list[_Condition]:
    if wanted.handler is None and not wanted.failed:
        return []
    sql = f"AND EXISTS (SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq AND {_work_condition(wanted)})"
    return [(sql, "handler", as_glob(wanted.handler or "*"))]


def _of_its_words(wanted: DeliveryFilter) -> list[_Condition]:
    if wanted.text is None:
        return []
    sql = "AND d.seq IN (SELECT rowid FROM words WHERE words MATCH :text)"
    return [(sql, "text", _expression(parse_query(wanted.text)))]


def _expression(phrases: Sequence[Phrase]) -> str:
    """Return a query as FTS5 wants it (SQLite manual, FTS5, Full-text Query Syntax); words are only letters."""
    return " AND ".join(f'"{" ".join(one.words)}"{" *" if one.prefix else ""}' for one in phrases)


def _work_condition(wanted: DeliveryFilter) -> str:
    failed = "(w.state = 'dead' OR w.last_error IS NOT NULL) AND " if wanted.failed else ""
    return failed + "w.handler GLOB :handler"


def _of_work(wanted: WorkFilter) -> list[_Condition]:
    conditions = _of_delivery(wanted)
    if wanted.handler is not None:
        conditions.append(("AND w.handler GLOB :handler", "handler", as_glob(wanted.handler)))
    if wanted.state is not None:
        conditions.append(("AND w.state = :state", "state", wanted.state.value))
    if wanted.among:
        states = json.dumps(wanted.among)
        conditions.append(("AND w.state IN (SELECT value FROM json_each(:among))", "among", states))
    if wanted.stuck:
        conditions.append(("AND (w.state <> :dead OR w.heads_lane = 1)", "dead", WorkState.DEAD.value))
    return conditions


def _of_delivery(wanted: DeliveryFilter | WorkFilter) -> list[_Condition]:
    conditions: list[_Condition] = []
    if wanted.type is not None:
        conditions.append(("AND d.type GLOB :type", "type", as_glob(wanted.type)))
    if wanted.job_id is not None:
        conditions.append(("AND d.job_id = :job_id", "job_id", wanted.job_id))
    if wanted.since is not None:
        conditions.append(("AND d.received_at >= :since", "since", to_micros(wanted.since)))
    if wanted.until is not None:
        conditions.append(("AND d.received_at < :until", "until", to_micros(wanted.until)))
    return conditions


def as_glob(pattern: str) -> str:
    """Return a glob in SQLite's spelling."""
    return pattern.replace("[!", "[^")


def _joined(conditions: list[_Condition]) -> tuple[str, _Values]:
    sql = " ".join(condition for condition, _, _ in conditions)
    return sql, {name: value for _, name, value in conditions}
