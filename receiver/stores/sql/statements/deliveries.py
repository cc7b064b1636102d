"""The SQL that reads deliveries: listings, pages with bodies, what is new, and what pruning may remove."""

from collections.abc import Iterable

from receiver.core.types import DeliveryState, WorkState
from receiver.core.work_states import OPEN
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import INDEXED_TO, ONE_BY_ONE, ROUTED, SUMMED, in_states, stored

# As in the index work_failed, to the letter (SQLite manual, Partial Indexes).
FAILED = "(state = 'dead' OR last_error IS NOT NULL)"

MONITOR_CHECK = "monitor.check.completed"
"""The only type of which an index finds all deliveries."""

_INDEXES = {
    WorkState.WAITING: "work_waiting",
    WorkState.QUEUED: "lane_queue",
    WorkState.HELD: "work_held",
    WorkState.RUNNING: "work_running",
    WorkState.DEAD: "work_dead",
    WorkState.SKIPPED: "work_skipped",
}
INDEXED = frozenset(_INDEXES)
"""The states of work items that have an index: all but DONE."""

ITS_WORK = "SELECT 1 FROM work_items AS w WHERE w.delivery_seq = d.seq"
"""The work items of a delivery `d`; conditions on `w` follow."""

STATE = f"""
CASE
    WHEN d.seq > ({ROUTED}) THEN '{DeliveryState.NEW}'
    WHEN EXISTS ({ITS_WORK} AND {in_states(OPEN, "w.state")} {ONE_BY_ONE}) THEN '{DeliveryState.WORKING}'
    WHEN EXISTS ({ITS_WORK} AND w.state = '{WorkState.DEAD}' {ONE_BY_ONE}) THEN '{DeliveryState.DEAD}'
    ELSE '{DeliveryState.DONE}'
END
"""
"""The state of a delivery, seen over all its work items."""

STOPS_LANE = f"EXISTS ({ITS_WORK} AND w.state = '{WorkState.DEAD}' AND w.heads_lane = 1 {ONE_BY_ONE})"
"""Whether a dead work item of a delivery, called `d`, stops its lane."""

_BEHIND_SEQ = (
    "d.key, d.type, d.job_id, d.webhook_id, d.success, d.received_at, d.size, d.duplicates, "
    f"{STATE} AS state, d.origin, d.pruned_at"
)

SUMMARY = f"d.seq, {_BEHIND_SEQ}"
"""The columns of a delivery in a listing, which `rows.delivery_summary` reads."""

WORDS_BEHIND = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED_TO}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED_TO}) ORDER BY seq DESC LIMIT 1)
"""
"""How many deliveries are not in the index of words yet, and when the last one arrived that is."""

LAST_DELIVERY = "SELECT coalesce(max(seq), 0) FROM deliveries"

NEW_SEQS = f"SELECT seq FROM deliveries WHERE seq > ({ROUTED})"


class DeliveryStatements:
    """Statements with a gap `{conditions}` take what `filters` makes of a filter."""

    def __init__(self, dialect: Dialect) -> None:
        among_seqs = dialect.among("d.seq", "seqs")
        self.listing = f"""
            SELECT * FROM (SELECT {SUMMARY} FROM deliveries AS d WHERE d.seq < :before {{conditions}}) AS listed
            {{state}} ORDER BY seq DESC LIMIT :rows
        """
        # The index of words gives its rows in the order of their ids, and only as many as are fetched.
        self.listing_by_words = f"""
            SELECT * FROM (
                SELECT {dialect.words_seq} AS seq, {_BEHIND_SEQ}
                FROM words AS s CROSS JOIN deliveries AS d
                WHERE d.seq = {dialect.words_seq} AND {dialect.words_match}
                    AND {dialect.words_seq} < :before {{conditions}}
            ) AS listed
            {{state}} ORDER BY seq DESC LIMIT :rows
        """
        # The rows that these listings examine, without the conditions that no index answers.
        self.end = """
            SELECT d.seq, d.received_at FROM deliveries AS d WHERE d.seq < :before {conditions}
            ORDER BY d.seq DESC LIMIT 2 OFFSET :skipped
        """
        self.end_by_words = f"""
            SELECT {dialect.words_seq} AS seq, d.received_at FROM words AS s CROSS JOIN deliveries AS d
            WHERE d.seq = {dialect.words_seq} AND {dialect.words_match} AND {dialect.words_seq} < :before
            ORDER BY seq DESC LIMIT 2 OFFSET :skipped
        """
        self.has_key = f"SELECT d.key FROM deliveries AS d WHERE {dialect.has_key}"
        self.keys_from = dialect.keys_from
        self.detail = f"""
            SELECT {SUMMARY}, b.headers, {dialect.body}, b.coding
            FROM deliveries AS d LEFT JOIN bodies AS b ON b.seq = d.seq WHERE {dialect.has_key}
        """
        self.subjects = f"""
            SELECT d.seq, d.key, d.type, d.job_id, {dialect.body}, b.coding
            FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq WHERE {among_seqs} AND d.size <= :most
        """
        self.failed_handlers = f"SELECT DISTINCT handler FROM work_items WHERE delivery_seq = :seq AND {FAILED}"
        self._read_in_pages(dialect, among_seqs)
        self._follow(among_seqs, dialect)
        self.prunable = """
            SELECT d.seq, d.size FROM deliveries AS d
            WHERE d.seq > :after AND d.seq <= :until_seq {conditions} ORDER BY d.seq
        """
        self.still_prunable = f"SELECT d.seq, d.size FROM deliveries AS d WHERE {among_seqs} {{conditions}}"

    def _read_in_pages(self, dialect: Dialect, among_seqs: str) -> None:
        self.first_of_newest = """
            SELECT min(seq) FROM (
                SELECT d.seq FROM deliveries AS d WHERE d.seq <= :through {conditions}
                ORDER BY d.seq DESC LIMIT :most
            ) AS newest
        """
        self.in_order = f"""
            SELECT {stored(dialect.body)} FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
            WHERE d.seq > :after AND d.seq <= :until_seq {{conditions}} ORDER BY d.seq
        """
        # In two parts: comparing (job_id, seq), SQLite would search its index by job_id alone, and read a job
        # from its start.
        self.places_in_jobs = """
            SELECT * FROM (
                SELECT job_id, seq FROM deliveries
                WHERE job_id = :after_job AND seq > :after ORDER BY seq LIMIT :most
            ) AS this_job
            UNION ALL
            SELECT * FROM (
                SELECT job_id, seq FROM deliveries WHERE job_id > :after_job ORDER BY job_id, seq LIMIT :most
            ) AS later_jobs
            ORDER BY job_id, seq LIMIT :most
        """
        # SQLite keeps the order of the list, as the left table of a CROSS JOIN is its outer loop (SQLite manual,
        # Query Planner). It would sort whole bodies if it had to order them.
        self.these_in_order = f"""
            SELECT {stored(dialect.body)} FROM {dialect.listed("seqs")}
            CROSS JOIN deliveries AS d CROSS JOIN bodies AS b
            WHERE d.seq = s.value AND b.seq = d.seq {{conditions}} {dialect.listed_order()}
        """

    def _follow(self, among_seqs: str, dialect: Dialect) -> None:
        self.feed_end = """
            SELECT max(seq) FROM (SELECT seq FROM deliveries WHERE seq > :after ORDER BY seq LIMIT :rows) AS next
        """
        self.arrivals = f"""
            SELECT minute, CAST(sum(count) AS bigint) FROM (
                SELECT minute, count FROM arrival_minutes
                UNION ALL
                SELECT received_at / 60000000 AS minute, 1 AS count FROM deliveries
                WHERE seq > ({SUMMED}) AND origin <> 'schedule'
            ) AS parts
            WHERE minute >= :since GROUP BY minute
        """
        self.feed = f"""
            SELECT {SUMMARY} FROM deliveries AS d
            WHERE d.seq > :after AND d.seq <= :through {{conditions}} ORDER BY d.seq
        """
        self.by_seqs = f"SELECT {SUMMARY} FROM deliveries AS d WHERE {among_seqs} {{conditions}} ORDER BY d.seq"
        self.open_seqs = open_seqs(dialect)
        self.newest_open = f"""
            {NEW_SEQS} UNION SELECT delivery_seq FROM ({self.open_seqs}) AS open_items ORDER BY 1 DESC LIMIT :rows
        """
        by_failure = dialect.by_index("work_failed")
        self.dead_seqs = f"SELECT delivery_seq FROM work_items {dialect.by_index('work_dead')} WHERE state = 'dead'"
        self.monitor_checks = (
            f"SELECT seq FROM deliveries {dialect.by_index('monitor_checks')} WHERE type = '{MONITOR_CHECK}'"
        )
        self.failed_seqs = f"""
            SELECT delivery_seq FROM work_items {by_failure} WHERE {FAILED} AND {dialect.glob("handler", "handler")}
        """


def of_states(dialect: Dialect, columns: str, states: Iterable[WorkState], condition: str = "") -> str:
    """Return the SQL that finds the work items in some states but DONE, each state by its own index."""
    return " UNION ALL ".join(
        f"SELECT {columns} FROM work_items {dialect.by_index(_INDEXES[state])} WHERE state = '{state}' {condition}"
        for state in states
    )


def open_seqs(dialect: Dialect) -> str:
    """Return the SQL that finds the deliveries of open work items, each state by its own index."""
    return of_states(dialect, "delivery_seq", OPEN)
