"""The SQL that reads deliveries and their jobs: listings, pages with bodies, what is new, what may be pruned."""

from collections.abc import Iterable

from receiver.core.jobs import LAST_PAGES, PAGE
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


_NEWER = f"SELECT 1 FROM deliveries AS n WHERE n.job_id = d.job_id AND n.seq > d.seq {ONE_BY_ONE}"


class JobStatements:
    """A job has its place by its last delivery. No body is read.

    A store keeps the table `jobs` up to the mark `summed`, at its own pace: a mark of 0 and no rows are right too.
    """

    recent_jobs = f"""
        SELECT d.seq FROM deliveries AS d
        WHERE {{lower}} AND d.seq < :before AND d.job_id IS NOT NULL
            AND NOT EXISTS ({_NEWER})
            {{conditions}}
        ORDER BY d.seq DESC
    """
    all_recent = f"d.seq > ({SUMMED})"
    # The higher one of two bounds: SQLite searches by one lower bound alone.
    recent_through = "d.seq > :above"
    summed = SUMMED
    # A job with newer deliveries than its row knows is among the recent ones.
    older_jobs = f"""
        SELECT j.last_seq FROM jobs AS j CROSS JOIN deliveries AS d
        WHERE d.seq = j.last_seq AND j.last_seq < :before {{conditions}}
            AND NOT EXISTS ({_NEWER})
        ORDER BY j.last_seq DESC
    """
    job_at = """
        SELECT max(seq), job_id FROM deliveries
        WHERE job_id = (SELECT job_id FROM deliveries WHERE seq = :seq) GROUP BY job_id
    """
    last_of_job = "SELECT seq FROM deliveries WHERE job_id = :job_id ORDER BY seq DESC LIMIT 1"
    next_job = (
        "SELECT job_id FROM deliveries WHERE job_id >= :from_id AND job_id <> :known_id ORDER BY job_id LIMIT 1"
    )
    arrivals = """
        SELECT type, success, count(*), sum(duplicates), min(seq), count(*) FILTER (WHERE origin = 'backfill')
        FROM deliveries WHERE job_id = :job_id GROUP BY type, success ORDER BY min(seq)
    """
    arrived_at = "SELECT received_at FROM deliveries WHERE seq = :seq"
    new_of_job = f"SELECT count(*) FROM deliveries WHERE job_id = :job_id AND seq > ({ROUTED})"
    work_of_job = """
        SELECT w.handler, w.state, count(*)
        FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
        WHERE d.job_id = :job_id GROUP BY w.handler, w.state
    """

    def __init__(self, dialect: Dialect) -> None:
        # As in the index job_ends, to the letter: else SQLite does not use it (its manual, Partial Indexes).
        ends_job = " OR ".join(dialect.ends_with("type", end) for end in (".completed", ".failed", ".cancelled"))
        sent_page = f"({dialect.ends_with('type', f'.{PAGE}')} AND origin <> 'backfill')"
        self.recent_conditions = _recent_conditions(dialect, ends_job)
        self.older_conditions = _older_conditions(dialect)
        self.job_end = f"""
            SELECT seq, type, success, received_at FROM deliveries
            WHERE job_id = :job_id AND ({ends_job}) ORDER BY seq LIMIT 1
        """
        self.late_pages = f"SELECT count(*) FROM deliveries WHERE job_id = :job_id AND seq > :seq AND {sent_page}"
        self.failed_lately = f"""
            SELECT count(*) FROM (
                SELECT success FROM deliveries WHERE job_id = :job_id AND {sent_page}
                ORDER BY seq DESC LIMIT {LAST_PAGES}
            ) AS last_pages WHERE NOT success
        """


def _recent_conditions(dialect: Dialect, ends_job: str) -> dict[str, str]:
    """Return the conditions of a filter on jobs, by the name of the field or of the state."""
    end_type = (
        f"(SELECT type FROM deliveries AS e WHERE e.job_id = d.job_id AND ({ends_job}) ORDER BY e.seq LIMIT 1)"
    )
    first_at = "(SELECT f.received_at FROM deliveries AS f WHERE f.job_id = d.job_id ORDER BY f.seq LIMIT 1)"
    return {
        "type": _has_type(dialect),
        "job_id": "AND d.job_id = :job_id",
        "since": "AND d.received_at >= :since",
        "until": f"AND {first_at} < :until",
        "through": "",
        "open": f"AND {end_type} IS NULL",
        "ended": f"AND {dialect.glob(end_type, 'ending')}",
    }


def _older_conditions(dialect: Dialect) -> dict[str, str]:
    """Return the same conditions, for the rows of jobs."""
    last_seq = f"SELECT max(o.seq) FROM deliveries AS o WHERE o.job_id = :job_id AND o.seq <= ({SUMMED})"
    return {
        "type": _has_type(dialect),
        "job_id": f"AND j.last_seq = ({last_seq})",
        "since": "AND j.last_at >= :since",
        "until": "AND j.first_at < :until",
        "through": "AND j.last_seq >= :through",
        "open": "AND j.end_type IS NULL",
        "ended": f"AND {dialect.glob('j.end_type', 'ending')}",
    }


def _has_type(dialect: Dialect) -> str:
    family = dialect.before_dot("t.type")
    return f"""AND EXISTS (
        SELECT 1 FROM deliveries AS t WHERE t.job_id = d.job_id
            AND ({dialect.glob("t.type", "type")} OR {dialect.glob(family, "type")})
    )"""
