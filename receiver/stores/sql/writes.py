"""What a kind of database writes: its own statements, and the shared algorithms over them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from receiver.core.deliveries import Delivery
from receiver.stores.sql.claims import Claims, ClaimStatements
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect, Insert, Locks
from receiver.stores.sql.moments import LatestMoment, MomentStatements
from receiver.stores.sql.settling import SettlingAlgorithm, SettlingStatements
from receiver.stores.sql.work_rows import InsertNew, InsertWithIds, RoutingStatements, WorkRows

InsertDelivery = Callable[[SqlConnection, Delivery], int | None]
"""Stores a delivery inside a transaction and returns its seq, None if its key is stored."""


class LeaseStatements(Protocol):
    """The SQL of those who hold a lease: of `:ids`, an array of the dialect, only what `:worker` still holds."""

    MARK_STARTED: str
    CLEAR_STARTED: str
    RENEW: str
    """Move the end of the lease to `:until`."""
    RELEASE_LEASES: str
    """Make items due at `:now`, and uncount the attempt."""
    EXPIRE_LEASES: str
    """End all leases of `:worker` at `:now`, and remove its name."""


class HoldStatements(Protocol):
    """The SQL of held items. `:job_id` and `:page_type` name the pages of a job."""

    HELD: str
    """The held items of `:handler` to check by `:now`, at most `:limit`."""
    LAST_PAGE: str
    UNROUTED_PAGE: str
    OPEN_PAGE: str
    """The key of a page with open work of one of `:handlers`, an array of the dialect."""
    RECHECK: str
    """Check the held item `:id` again `:at` a moment, or at the end of its hold if earlier, with `:note`."""
    RELEASE: str
    """Make the held item `:id` due at `:now`, or queue it in its lane, with `:note`."""


class OnceStatements(Protocol):
    """The SQL of once keys: a `:key` of a `:handler`."""

    ONCE: str
    """Insert the key with `:now` and `:until`, or renew one that has expired; changes no row otherwise."""
    AVAILABLE_ONCE_KEYS: str
    """Those of `:keys`, an array of the dialect, that `ONCE` would insert or renew at `:now`."""
    SET_ONCE_EXPIRY: str


class ControlStatements(Protocol):
    """The SQL of what operators decide. `:ids` is an array of the dialect."""

    RETRY: str
    """Make `:ids` due at `:now` with a fresh schedule, or queue them in their lanes."""
    BURY: str
    """Make `:ids` dead, with `:reason` as their error; dead ones release their lanes."""
    TAKE_BACK: str
    """Make those of `:ids` dead that nobody has attempted, but no heads of lanes. `:reason` is their error if they
    have none."""
    SWITCH: str
    """Set the switch of `:handler` `:to` a value."""


class PruneStatements(Protocol):
    """The SQL of pruning. `:seqs` is an array of the dialect."""

    REMOVE_BODIES: str
    NOTE_PRUNED: str
    """Note that the bodies of `:seqs` were removed at `:now`."""
    REMOVE_ALL: Sequence[str]
    """Remove `:seqs`, whose bodies have been removed, with all that hangs on them."""
    ONCE_KEYS_BEFORE: str
    """Handler and key of what was asked for before `:before`, at most `:limit`."""
    REMOVE_ONCE_KEY: str


class WorkerStatements(Protocol):
    """The SQL by which workers show themselves, and what they count."""

    SIGN_ON: str
    """Insert a row, or move when it was seen to `:now`."""
    SIGN_OFF: str
    """Remove the row of `:name`."""
    FORGET_WORKERS: str
    """Remove the rows that were seen last before `:before`."""
    COUNT_MINUTES: str
    """Add `:rows`, of minute, handler, outcome, bucket and count, to what is counted."""


class Writes:
    """Made once for each kind of database."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        moments: MomentStatements,
        routing: RoutingStatements,
        insert: Insert,
        insert_with_ids: InsertWithIds,
        insert_new: InsertNew,
        insert_delivery: InsertDelivery,
        locks: Locks,
        claims: ClaimStatements,
        leases: LeaseStatements,
        settling: SettlingStatements,
        holds: HoldStatements,
        once_keys: OnceStatements,
        controls: ControlStatements,
        pruning: PruneStatements,
        workers: WorkerStatements,
    ) -> None:
        self.dialect = dialect
        self.locks = locks
        self.insert_delivery = insert_delivery
        self.routing = routing
        self.leases = leases
        self.holds = holds
        self.once_keys = once_keys
        self.controls = controls
        self.pruning = pruning
        self.workers = workers
        self.latest = LatestMoment(moments)
        self.work_rows = WorkRows(
            routing,
            insert=insert,
            insert_with_ids=insert_with_ids,
            insert_new=insert_new,
            latest=self.latest,
            locks=locks,
            dialect=dialect,
        )
        self.claims = Claims(claims, self.latest, locks, dialect)
        self.settling = SettlingAlgorithm(
            settling,
            insert_attempts=lambda connection, rows: insert(connection, routing.insert_attempts, rows),
            latest=self.latest,
            locks=locks,
            dialect=dialect,
        )
