"""The SQL of work items that only SQLite has, and that of the locks of living workers."""

from receiver.stores.sql.statements.columns import stored
from receiver.stores.sql.statements.writing import STEP, Statements
from receiver.stores.sqlite.statements.log import BODY, JOB_ROWS
from receiver.stores.sqlite.statements.upkeep import NOTE_REMOVED, REMOVE_KEYS

LEASE_HOLDERS = "SELECT DISTINCT worker FROM work_items WHERE state = 'running' AND worker IS NOT NULL"

LOCKS_FILE = """
SELECT
    (SELECT value FROM marks WHERE name = 'locks_file') AS file,
    (SELECT value FROM marks WHERE name = 'locks_file_since') AS since
"""
"""The file of locks that workers were last seen to use, and since when; the first of a store has no beginning."""

LAST_WORK_ID = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'work_items'"


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * count)


def record_work(rows: int) -> str:
    """Insert work items that have run already."""
    columns = "delivery_seq, handler, state, attempts, trigger, last_error"
    return f"INSERT INTO work_items ({columns}) VALUES {_rows(rows, 6)}"


def insert_attempts(rows: int) -> str:
    """Insert attempts that have ended."""
    columns = "work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue"
    return f"INSERT INTO attempts ({columns}) VALUES {_rows(rows, 9)}"


class SqliteStatements(Statements):
    """The write lock keeps others away, so nothing is locked row by row."""

    note_time = f"""
        INSERT INTO marks (name, value) VALUES ('latest', :now)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= value + {STEP}
    """
    take_leases_ended = "SELECT id FROM work_items WHERE state = 'running' AND lease_until <= :steady LIMIT :limit"
    due = """
        SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
        WHERE w.handler = :handler AND w.state = 'waiting' AND w.due_at <= :now AND w.suspect = 0
        ORDER BY w.due_at LIMIT :limit
    """
    due_suspects = """
        SELECT w.id, d.size FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
        WHERE w.handler = :handler AND w.state = 'waiting' AND w.suspect = 1 AND w.due_at <= :now
        ORDER BY w.due_at LIMIT :limit
    """
    take_due, take_due_suspects = due, due_suspects
    claim = """
        UPDATE work_items SET
            state = 'running', due_at = NULL, lease_until = :until, worker = :worker, attempts = attempts + 1,
            started = id IN (SELECT value FROM json_each(:starting))
        WHERE id IN (SELECT value FROM json_each(:ids))
    """
    claim_returns = False
    items = f"""
        SELECT w.id, w.handler, w.attempts, w.uncounted, w.deaths, w.trigger, w.lane, {stored(BODY)}
        FROM json_each(:ids) AS ids
        JOIN work_items AS w ON w.id = ids.value
        JOIN deliveries AS d ON d.seq = w.delivery_seq
        JOIN bodies AS b ON b.seq = d.seq
    """
    queued_behind = """
        SELECT h.id, w.id, w.attempts, d.size
        FROM json_each(:ids) AS ids
        JOIN work_items AS h ON h.id = ids.value
        JOIN work_items AS w ON w.id IN (
            SELECT q.id FROM work_items AS q
            WHERE q.handler = h.handler AND q.lane = h.lane AND q.state = 'queued' ORDER BY q.id LIMIT :each
        )
        JOIN deliveries AS d ON d.seq = w.delivery_seq
        ORDER BY ids.key, w.id
    """
    advance_routed = "UPDATE marks SET value = :through WHERE name = 'routed' AND value = :after"
    unrouted = f"""
        SELECT {stored(BODY)}
        FROM deliveries AS d JOIN bodies AS b ON b.seq = d.seq
        WHERE d.seq > :after ORDER BY d.seq LIMIT :limit
    """
    # One step of SQLite for all rows, and few values: a row of values for each item takes a third more time, and
    # three times as much to make it. `:items` is an object of ids and deliveries, or of ids and deliveries with
    # their lanes. Arrays with both and the handler took a third more time than the first of these.
    insert_work = """
        INSERT INTO work_items (
            id, delivery_seq, handler, lane, heads_lane, started, state, attempts, trigger, due_at, lease_until,
            worker, recheck_at, hold_until, note, action_id
        )
        SELECT
            key, iif(type = 'array', json_extract(value, '$[0]'), value), :handler,
            iif(type = 'array', json_extract(value, '$[1]'), NULL),
            :heads_lane, :started, :state, :state = 'running', :trigger, iif(:state = 'waiting', :due_at, NULL),
            iif(:state = 'running', :lease_until, NULL), iif(:state = 'running', :worker, NULL),
            iif(:state = 'held', :recheck_at, NULL), :hold_until, :note, :action
        FROM json_each(:items)
    """
    record_work = staticmethod(record_work)
    insert_attempts = staticmethod(insert_attempts)
    also_ended = """
        INSERT INTO attempts (work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue)
        SELECT o.value, a.number, a.trigger, a.started_at, a.ended_at, a.outcome, a.error, a.traceback, a.overdue
        FROM json_each(:items) AS s CROSS JOIN attempts AS a CROSS JOIN json_each(s.value, '$[2]') AS o
        WHERE a.work_id = json_extract(s.value, '$[0]') AND a.number = json_extract(s.value, '$[1]')
    """
    count_minutes = """
        INSERT INTO handler_minutes (minute, handler, outcome, bucket, count)
        SELECT
            json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
            json_extract(value, '$[3]'), json_extract(value, '$[4]')
        FROM json_each(:rows) WHERE TRUE
        ON CONFLICT (minute, handler, outcome, bucket) DO UPDATE SET count = count + excluded.count
    """
    job_rows = JOB_ROWS
    before_jobs = (REMOVE_KEYS,)
    after_removal = (NOTE_REMOVED,)
