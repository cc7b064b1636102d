"""From the filters of a report to the statement that applies them."""

from collections.abc import Sequence
from dataclasses import dataclass

from receiver.core.clock import to_micros
from receiver.core.deliveries import DeliveryFilter, QuarantineFilter
from receiver.core.subjects import parse_query
from receiver.core.types import DeliveryState, Origin, WorkState, glob_list
from receiver.core.work import NO_REASON, WorkFilter
from receiver.core.work_states import ENDED
from receiver.stores.sql.connection import Values
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import ONE_BY_ONE, ROUTED, in_states
from receiver.stores.sql.statements.deliveries import (
    FAILED,
    INDEXED,
    ITS_WORK,
    LAST_DELIVERY,
    MONITOR_CHECK,
    NEW_SEQS,
    STATE,
    DeliveryStatements,
    JobStatements,
    of_states,
    open_seqs,
)
from receiver.stores.sql.statements.work import LAST_WORK, HealthStatements, QuarantineStatements, WorkStatements

_Condition = tuple[str, str, object]
"""A condition, and the name and value of its only placeholder."""

_ITS_DELIVERY = "SELECT 1 FROM deliveries AS d WHERE d.seq = w.delivery_seq"

_LISTED_BY_INDEX = {WorkState.DEAD: "work_dead", WorkState.SKIPPED: "work_skipped"}
"""The states whose index has the order of a listing."""


@dataclass(frozen=True, slots=True)
class PageStatements:
    """What finds a page of a listing without a look at all rows."""

    rows: str
    """The listing; the values `through`, `before`, `rows` and those of a narrower are still missing."""
    newest: str
    """Returns the number of the newest row."""
    end: str
    """Returns two rows of those that the listing examines; the values `before` and `skipped` are still missing."""
    end_values: Values
    """The other values of `end`."""


class Filters:
    """The filters in one dialect. Every method returns SQL and the values that belong to it."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._deliveries = DeliveryStatements(dialect)
        peaceful = [state for state in ENDED if state is not WorkState.DEAD]
        routed = f"AND d.seq <= ({ROUTED})"
        self._states = {
            DeliveryState.NEW: f"AND d.seq > ({ROUTED})",
            DeliveryState.WORKING: f"{routed} AND d.seq IN ({open_seqs(dialect)})",
            DeliveryState.DEAD: f"{routed} AND d.seq IN ({self._deliveries.dead_seqs}) "
            f"AND NOT EXISTS ({ITS_WORK} AND NOT {in_states(ENDED, 'w.state')})",
            DeliveryState.DONE: f"{routed} AND NOT EXISTS ({ITS_WORK} AND NOT {in_states(peaceful, 'w.state')})",
        }

    def delivery_listing(
        self, wanted: DeliveryFilter, narrower: str = "", *, one_by_one: str = ""
    ) -> tuple[str, Values]:
        """Return a listing; the values `before`, `rows` and those of `narrower` are still missing."""
        sql, values = _joined(self._of_delivery(wanted) + self._of_its_work(wanted, one_by_one))
        sql = f"{sql} {narrower}"
        state = ""
        if wanted.state is not None:
            state, values["state"] = "WHERE state = :state", wanted.state.value
        if wanted.text is None:
            return self._deliveries.listing.format(conditions=sql, state=state), values
        values["text"] = self._dialect.words_query(parse_query(wanted.text))
        return self._deliveries.listing_by_words.format(conditions=sql, state=state), values

    def delivery_page(self, wanted: DeliveryFilter, narrower: str = "") -> tuple[PageStatements, Values]:
        """Return the statements of a page, and the values of its listing."""
        seq = "d.seq" if wanted.text is None else self._dialect.words_seq
        listing, values = self.delivery_listing(wanted, f"{narrower} AND {seq} >= :through", one_by_one=ONE_BY_ONE)
        condition, end_values = "", Values()
        if wanted.text is not None:
            end_values["text"] = values["text"]
        elif wanted.job_id is not None:
            condition, end_values["job_id"] = "AND d.job_id = :job_id", wanted.job_id
        end = self._deliveries.end if wanted.text is None else self._deliveries.end_by_words
        return PageStatements(listing, LAST_DELIVERY, end.format(conditions=condition), end_values), values

    def work_listing(self, wanted: WorkFilter, narrower: str = "") -> tuple[str, Values]:
        """Return a listing; the values `before`, `rows` and those of `narrower` are still missing."""
        sql, values = _joined(self._of_work(wanted))
        index, condition = self._listed_by_index(wanted)
        return WorkStatements.listing.format(index=index, conditions=f"{sql} {narrower} {condition}"), values

    def work_page(self, wanted: WorkFilter, narrower: str = "") -> tuple[PageStatements, Values]:
        """Return the statements of a page, and the values of its listing."""
        of_item, values = _joined(self._of_item(wanted))
        of_delivery, others = _joined(self._of_delivery(wanted))
        if of_delivery:
            of_delivery = f"AND EXISTS ({_ITS_DELIVERY} {of_delivery} {ONE_BY_ONE})"
        index, condition = self._listed_by_index(wanted)
        conditions = f"{of_item} {of_delivery} {narrower} {condition} AND w.id >= :through"
        listing, values = WorkStatements.listing.format(index=index, conditions=conditions), values | others
        end_values = Values()
        if not condition and wanted.action is not None:
            condition, end_values["action"] = "AND w.action_id = :action", wanted.action
        end = WorkStatements.end.format(index=index, conditions=condition)
        return PageStatements(listing, LAST_WORK, end, end_values), values

    def work_ids(self, wanted: WorkFilter, *, newest_first: bool) -> tuple[str, Values]:
        """Return a statement for ids; the values `first`, `last` and `rows` are still missing."""
        sql, values = _joined(self._of_work(wanted))
        return WorkStatements.ids.format(conditions=sql, order="DESC" if newest_first else "ASC"), values

    def all_work_at_once(self, wanted: WorkFilter) -> tuple[str, Values]:
        """Return the wanted work items as a source of rows, for one look at all of them."""
        sql, values = _joined(self._of_work(wanted))
        if (states := _indexed_states(wanted)) is not None:
            sql += f" AND w.id IN ({of_states(self._dialect, 'id', states)})"
        columns = "w.id, w.handler, d.type, w.state, d.received_at"
        rows = (
            f"SELECT {columns} FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq WHERE TRUE {sql}"
        )
        if wanted.limit is not None:
            rows += " ORDER BY w.id DESC LIMIT :limit"
            values["limit"] = wanted.limit
        return f"({rows})", values

    def quarantine_listing(self, wanted: QuarantineFilter) -> tuple[str, Values]:
        """Return a listing; the values `before` and `rows` are still missing."""
        conditions: list[_Condition] = []
        if wanted.reason is not None:
            conditions.append(("AND reason = :reason", "reason", wanted.reason))
        if wanted.since is not None:
            conditions.append(("AND received_at >= :since", "since", to_micros(wanted.since)))
        if wanted.until is not None:
            conditions.append(("AND received_at < :until", "until", to_micros(wanted.until)))
        sql, values = _joined(conditions)
        return QuarantineStatements.listing.format(conditions=sql), values

    def row_by_row(self, wanted: DeliveryFilter) -> tuple[str, Values]:
        """Return conditions on `d` for a statement that looks at some deliveries at a time."""
        conditions = self._of_delivery(wanted) + self._of_its_work(wanted) + self._of_its_words(wanted)
        if wanted.state is not None:
            conditions.append((f"AND {STATE} = :state", "state", wanted.state.value))
        return _joined(conditions)

    def all_at_once(self, wanted: DeliveryFilter) -> tuple[str, Values]:
        """Return the wanted deliveries as a source of rows named `d`, for one look at all of them.

        Conditions on columns of work items are answered for all deliveries together, as it takes 4 times as long
        one by one. A condition that the index by delivery answers alone is asked for each delivery.
        """
        conditions = self._of_delivery(wanted) + self._of_its_words(wanted)
        if glob_list(wanted.handler) == ("*",) and not wanted.failed:
            conditions.append((f"AND EXISTS ({ITS_WORK})", "handler", "*"))
        elif wanted.handler is not None or wanted.failed:
            matching = f"SELECT w.delivery_seq FROM work_items AS w WHERE {self._work_condition(wanted)}"
            conditions += self._with_handlers(f"AND d.seq IN ({matching})", wanted)
        sql, values = _joined(conditions)
        if wanted.state is not None:
            sql += " " + self._states[wanted.state]
        if wanted.limit is None:
            return f"deliveries AS d WHERE TRUE {sql}", values
        values["limit"] = wanted.limit
        return f"(SELECT d.* FROM deliveries AS d WHERE TRUE {sql} ORDER BY d.seq DESC LIMIT :limit) AS d", values

    def known_handlers(self, wanted: DeliveryFilter | WorkFilter) -> tuple[str, Values]:
        """Return a statement for the wanted handlers that ever had a work item."""
        sql, values = _joined(self._with_handlers(self._handler_condition(wanted, "name"), wanted))
        return f"SELECT name FROM handlers WHERE {sql}", values

    def indexed_seqs(self, wanted: DeliveryFilter) -> Sequence[tuple[str, Values]]:
        """Return the statements by which an index finds all deliveries that can match, and perhaps others."""
        found: list[tuple[str, Values]] = []
        if wanted.failed:
            globs = glob_list(wanted.handler)
            glob = globs[0] if len(globs) == 1 else "*"
            found.append((self._deliveries.failed_seqs, {"handler": self._dialect.pattern(glob)}))
        match wanted.state:
            case DeliveryState.NEW:
                found.append((NEW_SEQS, {}))
            case DeliveryState.WORKING:
                found.append((self._deliveries.open_seqs, {}))
            case DeliveryState.DEAD:
                found.append((self._deliveries.dead_seqs, {}))
        if wanted.type == MONITOR_CHECK:
            found.append((self._deliveries.monitor_checks, {}))
        return found

    def indexed_work(self, wanted: WorkFilter) -> Sequence[tuple[str, Values]]:
        """Return the statements by which indexes find all work items that can match, and perhaps others.

        A listing finds some states by an index itself, so there is none for these.
        """
        found: list[tuple[str, Values]] = []
        if (states := _indexed_states(wanted)) is not None and wanted.state not in _LISTED_BY_INDEX:
            condition = "" if wanted.handler is None else f"AND {self._handler_condition(wanted, 'handler')}"
            _, values = _joined(self._with_handlers("", wanted) if condition else [])
            found.append((of_states(self._dialect, "id", states, condition), values))
        if wanted.job_id is not None:
            found.append((WorkStatements.ids_of_job, {"job_id": wanted.job_id}))
        return found

    def _listed_by_index(self, wanted: WorkFilter) -> tuple[str, str]:
        """Return the index that has the order of a listing, and the condition of its rows; "" for none."""
        if wanted.state not in _LISTED_BY_INDEX:
            return "", ""
        # A value would not fit the index.
        return self._dialect.by_index(_LISTED_BY_INDEX[wanted.state]), f"AND w.state = '{wanted.state}'"

    def _with_handlers(self, condition: str, wanted: DeliveryFilter | WorkFilter) -> list[_Condition]:
        """Return a condition that has `_handler_condition` in it, with the patterns as its values."""
        patterns = map(self._dialect.pattern, glob_list(wanted.handler) or ("*",))
        return [("" if at else condition, f"handler{at}", pattern) for at, pattern in enumerate(patterns)]

    def _handler_condition(self, wanted: DeliveryFilter | WorkFilter, column: str = "w.handler") -> str:
        count = len(glob_list(wanted.handler)) or 1
        return "(" + " OR ".join(self._dialect.glob(column, f"handler{at}") for at in range(count)) + ")"

    def _of_its_work(self, wanted: DeliveryFilter, one_by_one: str = "") -> list[_Condition]:
        if wanted.handler is None and not wanted.failed:
            return []
        its_work = f"{ITS_WORK} AND {self._work_condition(wanted)} {one_by_one}"
        return self._with_handlers(f"AND EXISTS ({its_work})", wanted)

    def _of_its_words(self, wanted: DeliveryFilter) -> list[_Condition]:
        if wanted.text is None:
            return []
        words = f"SELECT {self._dialect.words_seq} FROM words AS s WHERE {self._dialect.words_match}"
        return [(f"AND d.seq IN ({words})", "text", self._dialect.words_query(parse_query(wanted.text)))]

    def _work_condition(self, wanted: DeliveryFilter) -> str:
        failed = f"{FAILED} AND " if wanted.failed else ""
        return failed + self._handler_condition(wanted)

    def _of_work(self, wanted: WorkFilter) -> list[_Condition]:
        return self._of_delivery(wanted) + self._of_item(wanted)

    def _of_item(self, wanted: WorkFilter) -> list[_Condition]:
        conditions: list[_Condition] = []
        if wanted.handler is not None:
            conditions += self._with_handlers(f"AND {self._handler_condition(wanted)}", wanted)
        if wanted.state is not None:
            conditions.append(("AND w.state = :state", "state", wanted.state.value))
        if wanted.among:
            among = self._dialect.among("w.state", "among")
            conditions.append((f"AND {among}", "among", self._dialect.array([one.value for one in wanted.among])))
        if wanted.stuck:
            conditions.append(("AND (w.state <> :dead OR w.heads_lane = 1)", "dead", WorkState.DEAD.value))
        if wanted.error is not None:
            glob = self._dialect.glob(f"coalesce(w.last_error, w.note, '{NO_REASON}')", "error")
            conditions.append((f"AND {glob}", "error", self._dialect.pattern(wanted.error)))
        if wanted.action is not None:
            conditions.append(("AND w.action_id = :action", "action", wanted.action))
        if wanted.untried:
            untried = "w.attempts = w.uncounted AND (w.lane IS NULL OR w.heads_lane = :no)"
            conditions.append((f"AND {untried}", "no", 0))
        return conditions

    def _of_delivery(self, wanted: DeliveryFilter | WorkFilter) -> list[_Condition]:
        conditions: list[_Condition] = []
        if wanted.type is not None:
            glob = self._dialect.glob("d.type", "type")
            conditions.append((f"AND {glob}", "type", self._dialect.pattern(wanted.type)))
        if wanted.job_id is not None:
            conditions.append(("AND d.job_id = :job_id", "job_id", wanted.job_id))
        if wanted.since is not None:
            conditions.append(("AND d.received_at >= :since", "since", to_micros(wanted.since)))
        if wanted.until is not None:
            conditions.append(("AND d.received_at < :until", "until", to_micros(wanted.until)))
        if isinstance(wanted, DeliveryFilter) and not wanted.selects_runs:
            conditions.append(("AND d.origin <> :run", "run", Origin.SCHEDULE.value))
        return conditions


def _indexed_states(wanted: WorkFilter) -> Sequence[WorkState] | None:
    """Return the states of the wanted items, None if one of them has no index."""
    states = wanted.among if wanted.state is None else (wanted.state,)
    return states if states and INDEXED.issuperset(states) else None


def _joined(conditions: list[_Condition]) -> tuple[str, Values]:
    sql = " ".join(condition for condition, _, _ in conditions)
    return sql, {name: value for _, name, value in conditions}


class Reads:
    """Made once for each kind of database."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.filters = Filters(dialect)
        self.deliveries = DeliveryStatements(dialect)
        self.jobs = JobStatements(dialect)
        self.work = WorkStatements()
        self.health = HealthStatements(dialect)
        self.quarantine = QuarantineStatements()
