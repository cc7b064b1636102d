"""The SQL that reads jobs from their deliveries."""

from receiver.core.jobs import LAST_PAGES, PAGE
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import ONE_BY_ONE, ROUTED, SUMMED

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
