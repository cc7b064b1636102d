"""From the filters of a report to the statement that applies them."""

from receiver.clock import to_micros
from receiver.records import DeliveryFilter, WorkFilter
from receiver.stores.sqlite import statements

_Condition = tuple[str, str, object]


def delivery_listing(wanted: DeliveryFilter) -> tuple[str, dict[str, object]]:
    """Return the statement and its values; `before` and `rows` are still missing."""
    sql, values = _joined(_of_delivery(wanted))
    state = ""
    if wanted.state is not None:
        state, values["state"] = "WHERE state = :state", wanted.state.value
    return statements.LIST.format(conditions=sql, state=state), values


def work_listing(wanted: WorkFilter) -> tuple[str, dict[str, object]]:
    """Return the statement and its values; `before` and `rows` are still missing."""
    conditions = _of_delivery(wanted)
    if wanted.handler is not None:
        conditions.append(("AND w.handler GLOB :handler", "handler", _glob(wanted.handler)))
    if wanted.state is not None:
        conditions.append(("AND w.state = :state", "state", wanted.state.value))
    sql, values = _joined(conditions)
    return statements.LIST_WORK.format(conditions=sql), values


def _of_delivery(wanted: DeliveryFilter | WorkFilter) -> list[_Condition]:
    conditions: list[_Condition] = []
    if wanted.type is not None:
        conditions.append(("AND d.type GLOB :type", "type", _glob(wanted.type)))
    if wanted.job_id is not None:
        conditions.append(("AND d.job_id = :job_id", "job_id", wanted.job_id))
    if wanted.since is not None:
        conditions.append(("AND d.received_at >= :since", "since", to_micros(wanted.since)))
    if wanted.until is not None:
        conditions.append(("AND d.received_at < :until", "until", to_micros(wanted.until)))
    return conditions


def _glob(pattern: str) -> str:
    return pattern.replace("[!", "[^")  # SQLite's spelling


def _joined(conditions: list[_Condition]) -> tuple[str, dict[str, object]]:
    sql = " ".join(condition for condition, _, _ in conditions)
    return sql, {name: value for _, name, value in conditions}
