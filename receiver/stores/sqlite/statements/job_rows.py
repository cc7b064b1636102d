"""The SQL that keeps one row for each job, up to the mark `summed`."""

from receiver.stores.sql.statements.columns import SUMMED

# As in the index job_ends, to the letter: else SQLite does not use it (its manual, Partial Indexes).
_ENDS_JOB = "(e.type GLOB '*.completed' OR e.type GLOB '*.failed' OR e.type GLOB '*.cancelled')"

_JOBS_OF_NEXT = """
SELECT job_id, max(seq) AS last_seq FROM deliveries
WHERE seq > :after AND seq <= :through AND job_id IS NOT NULL GROUP BY job_id
"""

_JOBS_OF_REMOVED = """
SELECT DISTINCT job_id FROM deliveries WHERE seq IN (SELECT value FROM json_each(:seqs)) AND job_id IS NOT NULL
"""

_STAYS = "seq NOT IN (SELECT value FROM json_each(:seqs))"


def _row(left: str) -> str:
    """Return the columns of a row for the job `j`, from those of its deliveries that are left."""
    return f"""
    j.last_seq,
    (SELECT f.received_at FROM deliveries AS f WHERE f.job_id = j.job_id AND f.{left} ORDER BY f.seq LIMIT 1),
    (SELECT l.received_at FROM deliveries AS l WHERE l.seq = j.last_seq),
    (
        SELECT e.type FROM deliveries AS e
        WHERE e.job_id = j.job_id AND {_ENDS_JOB} AND e.{left} ORDER BY e.seq LIMIT 1
    )
    """


REMOVE_OF_NEXT = f"""
DELETE FROM jobs WHERE last_seq IN (
    SELECT (SELECT max(d.seq) FROM deliveries AS d WHERE d.job_id = j.job_id AND d.seq <= :after)
    FROM ({_JOBS_OF_NEXT}) AS j
)
"""

ADD_NEXT = f"INSERT INTO jobs SELECT {_row('seq > 0')} FROM ({_JOBS_OF_NEXT}) AS j ORDER BY 1"

ADVANCE_SUMMED = "UPDATE marks SET value = :through WHERE name = 'summed'"

# Both run before the deliveries are removed, which say what their jobs are.
REMOVE_OF_PRUNED = f"""
DELETE FROM jobs WHERE last_seq IN (
    SELECT (SELECT max(d.seq) FROM deliveries AS d WHERE d.job_id = j.job_id AND d.seq <= ({SUMMED}))
    FROM ({_JOBS_OF_REMOVED}) AS j
)
"""

ADD_WITHOUT_PRUNED = f"""
INSERT INTO jobs SELECT {_row(_STAYS)}
FROM (
    SELECT a.job_id, (
        SELECT max(d.seq) FROM deliveries AS d
        WHERE d.job_id = a.job_id AND d.seq <= ({SUMMED}) AND d.{_STAYS}
    ) AS last_seq
    FROM ({_JOBS_OF_REMOVED}) AS a
) AS j
WHERE j.last_seq IS NOT NULL
"""
