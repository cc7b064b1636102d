"""The SQL that changes work items and what belongs to them, in one dialect."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from receiver.core.rules import SUSPECT_LOSSES, TIME_STEP
from receiver.core.types import Trigger, WorkState
from receiver.core.work_states import BURIABLE, OPEN, RETRACTABLE, RETRYABLE, SKIPPABLE
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.statements.columns import ROUTED, in_states
from receiver.stores.sql.statements.log import JobRowStatements

STEP = TIME_STEP // timedelta(microseconds=1)

LATEST = "SELECT value FROM marks WHERE name = 'latest'"
"""The latest moment that the store knows."""


class Statements:
    """Each kind of database has a class with the rest, and makes one object of it.

    A statement has its values by name. `:ids`, `:seqs`, `:keys` and `:handlers` are arrays of the dialect, and
    `:items`, `:lanes` and `:rows` its rows.
    """

    note_time: str
    """Note `:now` as the latest moment if it is later by `rules.TIME_STEP`."""
    take_leases_ended: str
    """The ids of running items whose lease ended by `:steady`, at most `:limit`, for this transaction alone."""
    due: str
    """Id and size of what is due for `:handler` at `:now`, the longest due first, at most `:limit`; no suspects."""
    due_suspects: str
    """The same for suspects only."""
    take_due: str
    """As `due`, inside a transaction, which then has the items to itself."""
    take_due_suspects: str
    claim: str
    """Make `:ids` run for `:worker` under a lease `:until`; those in the array `:starting` have started."""
    claim_returns: bool
    """Whether `claim` returns what `items` does."""
    items: str
    """The columns of the items `:ids` and of their deliveries, in any order: to sort bodies takes long."""
    queued_behind: str
    """For each of `:ids`: its id, and id, attempts and size of the first `:each` queued behind it, in order."""
    advance_routed: str
    """Mark deliveries as routed `:through` a seq, if the mark is still at `:after`.

    Where another server may take the place of one, and lack what was read there, it marks none unless it is still
    `:server`.
    """
    unrouted: str
    """The columns of the deliveries after `:after`, at most `:limit`, and perhaps only about `:max_bytes`."""
    insert_work: str
    """Insert rows of `NewRow` which share their trigger, their `:action`, and their hold if they have one.

    `:due_at` is for those that wait, `:lease_until` and `:worker` for those that run, `:recheck_at` for held ones.
    """
    record_work: Callable[[int], str]
    """Insert so many items that have run already."""
    insert_attempts: Callable[[int], str]
    """Insert so many rows of `rows.attempt_row`."""
    also_ended: str
    """Record attempts that ended as others, which are recorded: `:items` are rows of id and number of one of those,
    and an array of the ids that have the same end."""
    count_minutes: str
    """Add `:rows`, of minute, handler, outcome, bucket and count, to what is counted."""
    job_rows: JobRowStatements
    before_jobs: Sequence[str] = ()
    """What `remove_all` does before it changes the rows of jobs."""
    after_removal: Sequence[str] = ()
    """What it does last."""

    def __init__(self, dialect: Dialect) -> None:
        self._by_ids = dialect.among("id", "ids")
        self._follow_the_clock(dialect)
        self._claim()
        self._take_back(dialect)
        self._lease(dialect)
        self._settle(dialect)
        self._route(dialect)
        self._hold(dialect)
        self._decide()
        self._prune(dialect)
        # It changes no row while the key is used and has not expired.
        self.once = """
            INSERT INTO once_keys AS k (handler, key, asked_at, expires_at) VALUES (:handler, :key, :now, :until)
            ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
                WHERE k.expires_at <= excluded.asked_at
        """
        self.available_once_keys = f"""
            SELECT s.value FROM {dialect.listed("keys", "text")} WHERE NOT EXISTS (
                SELECT 1 FROM once_keys AS k
                WHERE k.handler = :handler AND k.key = s.value AND (k.expires_at IS NULL OR k.expires_at > :now)
            )
        """
        self.set_once_expiry = "UPDATE once_keys SET expires_at = :until WHERE handler = :handler AND key = :key"
        self.sign_on = """
            INSERT INTO workers (name, machine, pid, version, started_at, seen_at, limits)
            VALUES (:name, :machine, :pid, :version, :started, :now, :limits)
            ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
        """
        self.sign_off = "DELETE FROM workers WHERE name = :name"
        self.forget_workers = "DELETE FROM workers WHERE seen_at < :before"

    def _follow_the_clock(self, dialect: Dialect) -> None:
        """Make what notes `:now`, and lets all that waits wait `:by` less, but not until before `:now`."""
        later = dialect.greatest
        self.latest = LATEST
        # The handlers' own `paced_until` needs nothing: `rules.Pace` knows by itself how far ahead it can be.
        self.move_back: Sequence[str] = (
            "UPDATE marks SET value = :now WHERE name = 'latest'",
            f"UPDATE work_items SET due_at = {later}(:now, due_at - :by) WHERE state = 'waiting' AND due_at > :now",
            f"UPDATE work_items SET recheck_at = {later}(:now, recheck_at - :by), "
            f"hold_until = {later}(:now, hold_until - :by) WHERE state = 'held'",
            f"UPDATE once_keys SET expires_at = {later}(:now, expires_at - :by) WHERE expires_at > :now",
        )

    def _claim(self) -> None:
        # The leases of all handlers: this worker may not have the code of some, and their work must not run for
        # ever.
        self.look = f"""
            SELECT EXISTS (SELECT 1 FROM work_items WHERE state = 'running' AND lease_until <= :steady), ({LATEST})
        """
        # Each state by its own index.
        self.any_skippable = "SELECT " + " OR ".join(
            f"EXISTS (SELECT 1 FROM work_items WHERE handler = :handler AND state = '{state}')"
            for state in SKIPPABLE
        )
        self.running = "SELECT count(*) FROM work_items WHERE handler = :handler AND state = 'running'"
        self.paced_until = "SELECT paced_until FROM handlers WHERE name = :handler"
        self.pace = """
            INSERT INTO handlers (name, paced_until) VALUES (:handler, :until)
            ON CONFLICT (name) DO UPDATE SET paced_until = excluded.paced_until
        """
        self.suspect_due = """
            SELECT 1 FROM work_items
            WHERE handler = :handler AND state = 'waiting' AND suspect = 1 AND due_at <= :now LIMIT 1
        """
        self.next_lease_end = "SELECT min(lease_until) FROM work_items WHERE state = 'running'"
        # Two rows: when an item is due, and when a held one is to be checked.
        self.next_due = """
            SELECT min(due_at) FROM work_items WHERE handler = :handler AND state = 'waiting'
            UNION ALL SELECT min(recheck_at) FROM work_items WHERE handler = :handler AND state = 'held'
        """

    def _take_back(self, dialect: Dialect) -> None:
        self.lose_attempts = f"""
            INSERT INTO attempts (work_id, number, trigger, ended_at, outcome, error, overdue)
            SELECT id, attempts, CASE attempts WHEN 1 THEN trigger ELSE 'retry' END, :now, 'lost', :error, 0
            FROM work_items WHERE {self._by_ids}
        """
        # The condition is that of `rules.suspicious`, and `rules.refusal` says what counts. A lease without a
        # worker is that of one that has certainly died. On the right side of an UPDATE every column has its old
        # value.
        self.lose = f"""
            UPDATE work_items SET
                state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0,
                last_error = :error, uncounted = uncounted + CASE suspect WHEN 0 THEN 1 ELSE 0 END, lost = lost + 1,
                deaths = deaths + CASE WHEN started = 1 AND worker IS NULL THEN 1 ELSE 0 END,
                suspect = CASE WHEN suspect = 1 OR started = 1 OR lost + 1 >= {SUSPECT_LOSSES} THEN 1 ELSE 0 END
            WHERE {self._by_ids}
        """
        # The items of a handler in each of these states, at most `:limit`.
        self.skip = {state: _skip(dialect, state) for state in SKIPPABLE}

    def _lease(self, dialect: Dialect) -> None:
        """Make what changes only those of `:ids` that `:worker` still holds."""
        running = dialect.by_id(WorkState.RUNNING)
        theirs = dialect.locked_in_order(f"{self._by_ids} AND worker = :worker AND {running}")
        self.mark_started = f"UPDATE work_items SET started = 1 WHERE {theirs}"
        self.clear_started = f"UPDATE work_items SET started = 0 WHERE {theirs}"
        self.renew = f"UPDATE work_items SET lease_until = :until WHERE {theirs}"
        # The attempt does not count.
        self.release_leases = f"""
            UPDATE work_items SET
                state = 'waiting', due_at = :now, lease_until = NULL, worker = NULL, started = 0,
                attempts = attempts - 1
            WHERE {theirs}
        """
        # All leases of a worker. Without a worker, it is certain that it has died.
        all_theirs = dialect.locked_in_order("state = 'running' AND worker = :worker")
        self.expire_leases = f"UPDATE work_items SET lease_until = :now, worker = NULL WHERE {all_theirs}"

    def _settle(self, dialect: Dialect) -> None:
        running = dialect.by_id(WorkState.RUNNING)
        # Nobody ends these before the transaction does.
        self.holders = f"""
            SELECT id, worker, attempts FROM work_items WHERE {self._by_ids} AND {running} {dialect.locked("id")}
        """
        # Most items end in success, and this statement takes less time than `settle`. It is one step: with one more
        # for each row that it returned, it took a third more time. Nobody but their worker waits for rows that run,
        # so these need not be locked in an order: to do so cost a fifth of it.
        self.finish = f"""
            UPDATE work_items SET
                state = 'done', lease_until = NULL, worker = NULL, started = 0, last_error = NULL, heads_lane = 0
            WHERE {self._by_ids} AND {running} AND worker = :worker AND attempts = :number
        """
        follows = f"{self._by_ids} AND {dialect.by_id(WorkState.QUEUED)} AND attempts = 0"
        self.followers_left = f"SELECT id FROM work_items WHERE {follows} {dialect.locked('id')}"
        self.finish_followers = (
            f"UPDATE work_items SET state = 'done', attempts = 1, last_error = NULL WHERE {follows}"
        )
        # They head their lanes from now on.
        self.follow = f"""
            UPDATE work_items SET
                state = 'running', heads_lane = 1, started = :started, attempts = 1, lease_until = :until,
                worker = :worker
            WHERE {follows}
        """
        settled = (
            "work_id bigint, state text, due_at bigint, error text, holds_lane integer, died integer, worker text, "
            "number integer"
        )
        self.settle = f"""
            UPDATE work_items AS w SET
                state = s.state, due_at = s.due_at, lease_until = NULL, worker = NULL, started = 0,
                last_error = s.error, deaths = deaths + s.died,
                heads_lane = CASE
                    WHEN s.state = 'waiting' OR (s.state = 'dead' AND s.holds_lane = 1) THEN heads_lane ELSE 0
                END
            FROM ({dialect.given("items", settled)}) AS s
            WHERE w.id = s.work_id AND {dialect.by_id(WorkState.RUNNING, "w.state")}
                AND w.worker = s.worker AND w.attempts = s.number
        """
        # Where no other item heads the lane of one of these, the first that is queued there becomes its head.
        heads = f"""
            SELECT (
                SELECT q.id FROM work_items AS q
                WHERE q.handler = l.handler AND q.lane = l.lane AND q.state = 'queued' ORDER BY q.id LIMIT 1
            )
            FROM (SELECT DISTINCT handler, lane FROM work_items WHERE {self._by_ids} AND lane IS NOT NULL) AS l
            WHERE NOT EXISTS (
                SELECT 1 FROM work_items AS h WHERE h.handler = l.handler AND h.lane = l.lane AND h.heads_lane = 1
            )
        """
        self.promote = f"""
            UPDATE work_items SET state = 'waiting', heads_lane = 1, due_at = :now
            WHERE {dialect.by_id(WorkState.QUEUED)} AND {dialect.among_found("id", heads)}
        """

    def _route(self, dialect: Dialect) -> None:
        self.any_backfilled = "SELECT CAST(EXISTS (SELECT 1 FROM marks WHERE name = 'backfilled') AS integer)"
        self.backfilled = f"SELECT key FROM deliveries WHERE {dialect.among('key', 'keys')} AND origin = 'backfill'"
        # Those of `:lanes`, pairs of handler and lane, that have a head.
        self.lane_heads = f"""
            SELECT w.handler, w.lane FROM ({dialect.given("lanes", "handler text, lane text")}) AS l
            JOIN work_items AS w ON w.handler = l.handler AND w.lane = l.lane AND w.heads_lane = 1
        """
        # These deliveries stay until the transaction ends.
        self.with_bodies = f"""
            SELECT seq FROM deliveries
            WHERE {dialect.among("seq", "seqs")} AND pruned_at IS NULL {dialect.locked("seq", "KEY SHARE")}
        """

    def _hold(self, dialect: Dialect) -> None:
        """Make what is about held items, and the pages of `:job_id` that they wait for, which have `:page_type`."""
        held = dialect.by_id(WorkState.HELD)
        self.held = """
            SELECT w.recheck_at, w.id, w.handler, d.type, d.job_id, d.received_at, w.hold_until
            FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
            WHERE w.handler = :handler AND w.state = 'held' AND w.recheck_at <= :now
            ORDER BY w.recheck_at, w.id LIMIT :limit
        """
        of_job = "job_id = :job_id AND type = :page_type"
        self.last_page = f"SELECT received_at FROM deliveries WHERE {of_job} ORDER BY seq DESC LIMIT 1"
        self.unrouted_page = f"SELECT key FROM deliveries WHERE {of_job} AND seq > ({ROUTED}) LIMIT 1"
        # The newest first: if a page has open work of one of `:handlers`, it is mostly among these.
        self.open_page = f"""
            SELECT d.key FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
            WHERE d.job_id = :job_id AND d.type = :page_type AND {in_states(OPEN, "w.state")}
                AND {dialect.among("w.handler", "handlers")} AND w.trigger <> '{Trigger.LATER}'
            ORDER BY d.seq DESC LIMIT 1
        """
        # Another worker may have moved the end of the hold back with the clock, while this one decided by the time
        # before.
        self.recheck = f"""
            UPDATE work_items SET
                recheck_at = {dialect.least}(CAST(:at AS bigint), coalesce(hold_until, CAST(:at AS bigint))),
                note = :note
            WHERE id = :id AND {held}
        """
        # An item with a lane joins the queue. `promote` then takes it at once if the lane has no head.
        self.release = f"""
            UPDATE work_items SET
                state = CASE WHEN lane IS NULL THEN 'waiting' ELSE 'queued' END,
                due_at = CASE WHEN lane IS NULL THEN CAST(:now AS bigint) END, recheck_at = NULL, note = :note
            WHERE id = :id AND {held}
        """

    def _decide(self) -> None:
        """Make what operators decide. `:action` is what they did."""
        self.retry = f"""
            UPDATE work_items SET
                state = CASE WHEN lane IS NULL OR heads_lane = 1 THEN 'waiting' ELSE 'queued' END,
                due_at = CASE WHEN lane IS NULL OR heads_lane = 1 THEN CAST(:now AS bigint) END, recheck_at = NULL,
                uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL,
                action_id = CAST(:action AS bigint)
            WHERE {self._by_ids} AND {in_states(RETRYABLE)}
                AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
        """
        # Dead ones release their lanes.
        self.bury = f"""
            UPDATE work_items SET
                last_error = CASE state WHEN 'dead' THEN last_error ELSE :reason END, state = 'dead', due_at = NULL,
                recheck_at = NULL, heads_lane = 0,
                action_id = CASE WHEN state <> 'dead' THEN CAST(:action AS bigint) END
            WHERE {self._by_ids} AND {in_states(BURIABLE)} AND (state <> 'dead' OR heads_lane = 1)
        """
        # Only what was never attempted, and no heads of lanes.
        self.take_back = f"""
            UPDATE work_items SET
                last_error = coalesce(last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
                action_id = CAST(:action AS bigint)
            WHERE {self._by_ids} AND {in_states(RETRACTABLE)} AND attempts = uncounted
                AND (lane IS NULL OR heads_lane = 0)
        """
        self.switch = """
            INSERT INTO handlers (name, switch) VALUES (:handler, :to)
            ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
        """

    def _prune(self, dialect: Dialect) -> None:
        by_seqs = dialect.among("seq", "seqs")
        of_seqs = dialect.among("delivery_seq", "seqs")
        its_attempts = dialect.among_found("work_id", f"SELECT id FROM work_items WHERE {of_seqs}")
        self.remove_bodies = f"DELETE FROM bodies WHERE {by_seqs}"
        self.note_pruned = f"UPDATE deliveries SET pruned_at = :now WHERE {by_seqs}"
        # Deliveries whose bodies have been removed, with all that depends on them.
        self.remove_all: Sequence[str] = (
            f"DELETE FROM attempts WHERE {its_attempts}",
            f"DELETE FROM work_items WHERE {of_seqs}",
            *self.before_jobs,
            self.job_rows.remove_of_pruned,
            self.job_rows.add_without_pruned,
            f"DELETE FROM deliveries WHERE {by_seqs}",
            *self.after_removal,
        )
        self.once_keys_before = "SELECT handler, key FROM once_keys WHERE asked_at < :before LIMIT :limit"
        self.remove_once_key = "DELETE FROM once_keys WHERE handler = :handler AND key = :key"


def _skip(dialect: Dialect, state: WorkState) -> str:
    found = (
        f"SELECT id FROM work_items WHERE handler = :handler AND state = '{state}' LIMIT :limit {dialect.locked()}"
    )
    return f"""
        UPDATE work_items SET state = 'skipped', due_at = NULL, recheck_at = NULL, heads_lane = 0
        WHERE {dialect.by_id(state)} AND {dialect.among_found("id", found)}
    """
