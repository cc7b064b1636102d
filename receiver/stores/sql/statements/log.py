"""The SQL of storing deliveries that both kinds of databases share, with the rows that are kept for jobs.

A process that writes loads this, and none of the SQL of work.
"""

from collections.abc import Callable

from receiver.stores.sql.statements.columns import SUMMED

QUARANTINE = "INSERT INTO quarantine (received_at, reason, detail, key, headers, body) VALUES (?, ?, ?, ?, ?, ?)"

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"

RESTORED = "UPDATE deliveries SET pruned_at = NULL WHERE seq = ?"

MARK_BACKFILLED = "INSERT INTO marks (name, value) VALUES ('backfilled', 1) ON CONFLICT (name) DO NOTHING"

PROBE = """
INSERT INTO marks (name, value) VALUES ('probe', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

_JOBS_OF_NEXT = """
SELECT job_id, max(seq) AS last_seq FROM deliveries
WHERE seq > :after AND seq <= :through AND job_id IS NOT NULL GROUP BY job_id
"""

COUNT_NEXT = """
INSERT INTO arrival_minutes (minute, count)
SELECT received_at / 60000000, count(*) FROM deliveries
WHERE seq > :after AND seq <= :through AND origin <> 'schedule' GROUP BY 1
ON CONFLICT (minute) DO UPDATE SET count = arrival_minutes.count + excluded.count
"""
"""A minute is a whole number of microseconds, and integers divide without a rest in both dialects."""


class JobRowStatements:
    """The statements that keep one row for each job, up to the mark `summed`, inside the transactions of a store.

    Two follow the deliveries after `:after` up to `:through`, as `COUNT_NEXT` does. The two for `:seqs` come before
    those deliveries are removed, which say what their jobs are.
    """

    def __init__(self, *, ends_job: str, among_seqs: Callable[[str], str]) -> None:
        """`ends_job` is the condition on `e` that a delivery ends its job, as the index job_ends has it.

        `among_seqs` makes the condition that a column is in the array `:seqs`.
        """
        jobs_of_removed = f"""
            SELECT DISTINCT job_id FROM deliveries WHERE {among_seqs("seq")} AND job_id IS NOT NULL
        """
        self.remove_of_next = f"""
            DELETE FROM jobs WHERE last_seq IN (
                SELECT (SELECT max(d.seq) FROM deliveries AS d WHERE d.job_id = j.job_id AND d.seq <= :after)
                FROM ({_JOBS_OF_NEXT}) AS j
            )
        """
        self.add_next = f"""
            INSERT INTO jobs (last_seq, first_at, last_at, end_type)
            SELECT {_row(ends_job, lambda seq: f"{seq} > 0")} FROM ({_JOBS_OF_NEXT}) AS j ORDER BY 1
        """
        self.remove_of_pruned = f"""
            DELETE FROM jobs WHERE last_seq IN (
                SELECT (
                    SELECT max(d.seq) FROM deliveries AS d WHERE d.job_id = j.job_id AND d.seq <= ({SUMMED})
                )
                FROM ({jobs_of_removed}) AS j
            )
        """
        self.add_without_pruned = f"""
            INSERT INTO jobs (last_seq, first_at, last_at, end_type)
            SELECT {_row(ends_job, lambda seq: f"NOT ({among_seqs(seq)})")}
            FROM (
                SELECT a.job_id, (
                    SELECT max(d.seq) FROM deliveries AS d
                    WHERE d.job_id = a.job_id AND d.seq <= ({SUMMED}) AND NOT ({among_seqs("d.seq")})
                ) AS last_seq
                FROM ({jobs_of_removed}) AS a
            ) AS j
            WHERE j.last_seq IS NOT NULL
        """


def _row(ends_job: str, is_left: Callable[[str], str]) -> str:
    """Return the columns of a row for the job `j`, from those of its deliveries that are left."""
    return f"""
    j.last_seq,
    (
        SELECT f.received_at FROM deliveries AS f
        WHERE f.job_id = j.job_id AND {is_left("f.seq")} ORDER BY f.seq LIMIT 1
    ),
    (SELECT l.received_at FROM deliveries AS l WHERE l.seq = j.last_seq),
    (
        SELECT e.type FROM deliveries AS e
        WHERE e.job_id = j.job_id AND {ends_job} AND {is_left("e.seq")} ORDER BY e.seq LIMIT 1
    )
    """
