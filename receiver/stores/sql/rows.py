"""Make records from the rows of a database."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic_core import from_json, to_json

from receiver.core.activity import HandlerLimits, WorkerReport, WorkerSign
from receiver.core.clock import from_micros
from receiver.core.deliveries import Delivery, DeliverySummary, StoredDelivery
from receiver.core.subjects import Texts, texts_of
from receiver.core.types import (
    AttemptOutcome,
    DeliveryState,
    HandlerName,
    HandlerSwitch,
    Origin,
    Trigger,
    WorkState,
)
from receiver.core.work import Attempt, LaneHead, WorkSummary
from receiver.errors import StoreError
from receiver.stores.sql.columns_of_bodies import PLAIN, decoded, headers_when_asked
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.statements.work import HealthStatements

_ORIGINS = {origin.value: origin for origin in Origin}


def stored_delivery(row: Sequence[Any]) -> StoredDelivery:
    """Read the columns `stored` of `statements.columns`."""
    seq, key, kind, job_id, webhook_id, success, received_at, duplicates, origin, headers, body, coding = row
    at, told = from_micros(received_at), headers_when_asked(headers)
    exact = body if coding == PLAIN else decoded(body, coding, key=key)
    # With the names of the fields this takes a fifth longer.
    delivery = Delivery(key, kind, job_id, webhook_id, flag(success), at, told, exact, _ORIGINS[origin])
    return StoredDelivery(seq, duplicates, delivery)


def delivery_or_reason(row: Sequence[Any]) -> StoredDelivery:
    """Read the same, or why the body cannot be read: one such body does not keep others from whoever reads them."""
    try:
        return stored_delivery(row)
    except StoreError as exc:
        *others, _, _ = row
        return stored_delivery((*others, b"", PLAIN))._replace(unreadable=str(exc))


def stored_texts(seq: int, body: bytes | str, coding: int) -> Texts:
    """Read the words of a body; none if it is damaged, which is an error for its readers only."""
    try:
        return texts_of(decoded(body, coding, key=str(seq)))
    except StoreError:
        return Texts()


def delivery_summary(row: tuple[Any, ...]) -> DeliverySummary:
    """Read the columns `SUMMARY` of `statements.deliveries`."""
    seq, key, kind, job_id, webhook_id, success, received_at, size, duplicates, state, origin, pruned = row
    return DeliverySummary(
        seq=seq,
        key=key,
        type=kind,
        job_id=job_id,
        webhook_id=webhook_id,
        success=flag(success),
        received_at=from_micros(received_at),
        size=size,
        duplicates=duplicates,
        state=DeliveryState(state),
        origin=_ORIGINS[origin],
        has_body=pruned is None,
    )


def work_summary(row: tuple[Any, ...]) -> WorkSummary:
    """Read the columns that `WorkStatements` selects of a work item."""
    work_id, key, kind, job_id, received_at, handler, state, attempts, lane, *others = row
    due_at, last_error, note, heads, head_id, head_state, head_ended_at = others
    ended_at = None if head_ended_at is None else from_micros(head_ended_at)
    return WorkSummary(
        id=work_id,
        key=key,
        type=kind,
        job_id=job_id,
        received_at=from_micros(received_at),
        handler=handler,
        state=WorkState(state),
        attempts=attempts,
        lane=lane,
        due_at=None if due_at is None else from_micros(due_at),
        last_error=last_error,
        note=note,
        holds_lane=bool(heads) and state == WorkState.DEAD,
        behind=None if head_id is None else LaneHead(head_id, WorkState(head_state), ended_at),
    )


def attempt(row: tuple[Any, ...]) -> Attempt:
    """Read the columns that `WorkStatements` selects of an attempt."""
    number, trigger, started_at, ended_at, outcome, error, traceback, overdue = row
    return Attempt(
        number=number,
        trigger=Trigger(trigger),
        started_at=None if started_at is None else from_micros(started_at),
        ended_at=from_micros(ended_at),
        outcome=AttemptOutcome(outcome),
        error=error,
        traceback=traceback,
        overdue=bool(overdue),
    )


def flag(value: int | None) -> bool | None:
    """Return the truth value that a number stands for."""
    return None if value is None else bool(value)


def worker_report(row: Sequence[Any], running: Mapping[HandlerName, int]) -> WorkerReport:
    """Return a worker and what it runs."""
    name, machine, pid, version, started_at, seen_at, written = row
    told = from_json(written)
    limits = {
        HandlerName(handler): HandlerLimits(concurrency, None if micros is None else timedelta(microseconds=micros))
        for handler, (concurrency, micros) in told["handlers"].items()
    }
    sign = WorkerSign(name, machine, pid, version, from_micros(started_at), told["slots"], limits)
    return WorkerReport(sign, from_micros(seen_at), running)


def written_limits(sign: WorkerSign) -> str:
    """Return the limits of a worker's handlers as `worker_report` reads them."""
    handlers = {
        name: (one.concurrency, None if one.interval is None else one.interval // timedelta(microseconds=1))
        for name, one in sign.limits.items()
    }
    return to_json({"slots": sign.slots, "handlers": handlers}).decode()


def switches(connection: SqlConnection) -> Mapping[HandlerName, HandlerSwitch]:
    """Return the handlers that are not on."""
    return {name: HandlerSwitch(switch) for name, switch in connection.execute(HealthStatements.switches)}
