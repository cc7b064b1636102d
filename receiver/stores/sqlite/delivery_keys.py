"""Which deliveries are stored, by their keys: an index that follows later, and the newest keys in memory.

Keys are random, so each belongs to a page of the index where hardly another new one does. If each was put there
at once, a delivery would write a page of 8 KiB for its 18 bytes. So new keys gather in memory, sorted into buckets,
and a whole bucket is moved at a time, whose keys share pages. A process that starts reads what was not moved from
the table of deliveries. The index has both ends of a key only, which saves a fifth of what the store takes for a
delivery beside 10 million.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from receiver.core.types import DeliveryKey
from receiver.stores.sql.connection import NoNumber
from receiver.stores.sqlite import statements

_GATHERED = 65_536
"""Keys that gather before they are moved. Two thirds as many come in meanwhile: about 12 MB of memory for UUIDs."""
_MOST_GATHERED = 131_072
_GIVEN_FOR_ONE = 64
"""On a large store, one key gathers for every 64 stored, so that as many keys as before share an index page."""
_MOVED_AT_ONCE = 256
"""As many as a bucket has when enough have gathered. Two keys are moved for each new one."""
_MAX_MOVED = 1_024
"""Of one bucket. Acks wait for them, so keys that are not random are moved in parts, the oldest first."""
_MAX_FOUND = 512
_TEXTS = 256
"""The bucket of keys that are no bytes; the others are numbered by the first byte."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
_HEX = re.compile(r"[0-9a-f]*").fullmatch
_PREFIX = "sha256:"

_Packed = bytes | str
_Indexed = bytes | str


def packed_key(key: str) -> _Packed:
    """Return a key in few bytes: 16 for a UUID, 32 for a SHA-256, any other text as it is."""
    if _UUID(key):
        return bytes.fromhex(key.replace("-", ""))
    return bytes.fromhex(key[len(_PREFIX) :]) if _SHA256(key) else key


def index_key(key: str) -> _Indexed:
    """Return a key as the index has it, where other keys may have the same: 8 bytes for a UUID, 9 for a SHA-256."""
    return _indexed(packed_key(key))


def _indexed(packed: _Packed) -> _Indexed:
    """Return both ends: some ids begin with the time, and some end with a counter."""
    if isinstance(packed, str):
        return packed
    return packed[:4] + packed[-4 if len(packed) == 16 else -5 :]


def is_hash(key: str) -> bool:
    """Return whether a key is the SHA-256 of its body: no other body has it."""
    return _SHA256(key) is not None


def index_floor(prefix: str) -> bytes | None:
    """Return the lowest bytes in the index of a key that begins so, None if all such keys are texts."""
    return _bound(prefix, "0")


def index_ceiling(prefix: str) -> bytes | None:
    """Return the highest bytes in the index of a key that begins so, None if all such keys are texts."""
    return _bound(prefix, "f")


def _bound(prefix: str, filler: str) -> bytes | None:
    is_hash = _PREFIX.startswith(prefix[: len(_PREFIX)]) and prefix != ""
    digits = prefix[len(_PREFIX) :] if is_hash else prefix.replace("-", "")
    length = 64 if is_hash else 32
    if not _HEX(digits) or len(digits) > length:
        return None
    return bytes.fromhex(digits[:8].ljust(18 if is_hash else 16, filler))


def add_functions(connection: sqlite3.Connection) -> None:
    """Let the statements of a connection call the functions of this module."""
    for function in (index_key, index_floor, index_ceiling):
        connection.create_function(function.__name__, 1, function, deterministic=True)


class DeliveryKeys:
    """Finds stored keys inside the transactions of one connection that store deliveries.

    Such a transaction runs inside a block of `changes`: first `find`, then the inserts, then `add`. Each bucket has
    its keys in the order of their seqs.
    """

    def __init__(self, *, gathered: int = _GATHERED) -> None:
        self.last_seq = 0
        """The last seq that was ever given, as of the last `find`."""
        self._gathered = gathered
        self._buckets: list[dict[_Packed, int]] = [{} for _ in range(_TEXTS + 1)]
        self._through = 0  # all deliveries up to this seq are in the index or in a bucket
        self._keyed = 0  # all deliveries up to this seq are in the index
        # While buckets are moved: what `_keyed` will be when those from `_place` on have been. Others have later
        # keys only. Of the bucket at that place, keys up to the seq `_part` have been moved.
        self._moving: int | None = None
        self._place = self._part = 0
        self._owed = 0  # keys to be moved
        self._removed = 0  # no delivery above this seq was ever pruned
        self._packed: dict[DeliveryKey, _Packed] = {}  # of the keys that were looked for last
        # What the transaction did, until it is committed.
        self._added: list[tuple[_Packed, int]] = []
        self._moved: Sequence[_Packed] = ()
        self._next_place = self._next_part = 0

    @contextmanager
    def changes(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Take over what `add` does if the block ends without an error, which has to say that it was committed.

        After an error nothing is taken over: `find` starts from what the database has. What others have stored
        meanwhile is read in front of the transaction, since it may be much.
        """
        self.catch_up(connection)
        yield
        self._take_over()

    def find(self, connection: sqlite3.Connection, keys: Iterable[DeliveryKey]) -> dict[DeliveryKey, int]:
        """Return the seqs of those keys that are stored."""
        self.catch_up(connection)
        self._packed = {key: packed_key(key) for key in keys}
        found: dict[DeliveryKey, int] = {}
        others: set[_Indexed] = set()
        for key, packed in self._packed.items():
            seq = self._buckets[_bucket(packed)].get(packed)
            # It may have been pruned, and stored again by another process.
            if seq is not None and connection.execute(statements.STORED, (seq, key)).fetchone():
                found[key] = seq
            else:
                others.add(_indexed(packed))
        # Other keys may have the same bytes.
        return found | {key: seq for key, seq in _look_up(connection, list(others)) if key in self._packed}

    def add(self, connection: sqlite3.Connection, inserted: Iterable[tuple[DeliveryKey, int]]) -> None:
        """Note new deliveries with keys that were looked for, and move a bucket into the index when it is time."""
        self._added = [(self._packed[key], seq) for key, seq in inserted]
        enough = max(self._gathered, min(self.last_seq // _GIVEN_FOR_ONE, _MOST_GATHERED))
        waiting = self._through - self._keyed
        if self._moving is None and waiting >= enough:
            self._moving = self._through
        if self._moving is not None:
            # Workers, which store scheduled runs, move nothing, and some processes end before they have moved much.
            owed = _MAX_MOVED if waiting > 2 * enough else self._owed + 2 * len(self._added)
            if owed >= _MOVED_AT_ONCE:
                self._move(connection, self._moving, min(owed, _MAX_MOVED))

    def _take_over(self) -> None:
        for packed in self._moved:
            del self._buckets[_bucket(packed)][packed]
        if self._moving is not None:
            self._owed = max(self._owed + 2 * len(self._added) - len(self._moved), -_MAX_MOVED)
        self._place, self._part = self._next_place, self._next_part
        if self._moving is not None and self._place > _TEXTS:
            self._keyed, self._moving, self._place, self._part, self._owed = self._moving, None, 0, 0, 0
        for packed, seq in self._added:
            self._note(packed, seq)
            self._through = seq

    def _note(self, packed: _Packed, seq: int) -> None:
        bucket = self._buckets[_bucket(packed)]
        bucket.pop(packed, None)  # of a delivery that was pruned
        bucket[packed] = seq

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Read what other connections have stored and moved since the last call."""
        progress = connection.execute(statements.PROGRESS).fetchone()
        if None in progress:
            raise NoNumber
        keyed, moving, place, part, self.last_seq, self._removed = progress
        if keyed > self._keyed:
            self._forget(range(_TEXTS + 1), keyed)
            self._keyed, self._through = keyed, max(keyed, self._through)
            self._place = self._part = 0
        self._moving = moving if moving > keyed else None
        if self._moving is not None:
            self._forget(range(self._place, place), moving)
            self._place, self._part = place, part
        self._start()
        if self._through < self.last_seq:
            for seq, key in connection.execute(statements.BEHIND, (self._through,)):
                packed = packed_key(key)
                if seq > moving or (_bucket(packed), seq) > (place, part):
                    self._note(packed, seq)
                self._through = seq

    def _forget(self, numbers: Iterable[int], through: int) -> None:
        """Forget keys that another process has moved."""
        for number in numbers:
            self._buckets[number] = {key: seq for key, seq in self._buckets[number].items() if seq > through}

    def _start(self) -> None:
        self._added, self._moved = [], ()
        self._next_place, self._next_part = self._place, self._part

    def _move(self, connection: sqlite3.Connection, moving: int, most: int) -> None:
        rows: list[tuple[_Packed, int]] = []
        place, part = self._place, self._part
        while place <= _TEXTS and len(rows) < most:
            bucket = self._buckets[place]
            rows += islice(bucket.items(), _MAX_MOVED)
            if len(bucket) > _MAX_MOVED:
                part = max(part, rows[-1][1])
            else:
                place, part = place + 1, 0
        # To ask for each delivery whether it is still there takes as long as all the rest.
        move = statements.move if self._removed <= self._keyed else statements.move_unremoved
        statements.insert_by_powers(connection, move, [(_indexed(packed), seq) for packed, seq in rows])
        self._moved, self._next_place, self._next_part = [packed for packed, _ in rows], place, part
        connection.execute(statements.NOTE_MOVING, {"moving": moving, "place": place, "part": part})
        if place > _TEXTS:
            connection.execute(statements.ADVANCE_KEYED, (moving,))


def _bucket(packed: _Packed) -> int:
    return packed[0] if isinstance(packed, bytes) else _TEXTS


def _look_up(connection: sqlite3.Connection, wanted: Sequence[_Indexed]) -> Iterator[tuple[DeliveryKey, int]]:
    """Yield the keys of all deliveries that the index finds by these."""
    for start in range(0, len(wanted), _MAX_FOUND):
        part = wanted[start : start + _MAX_FOUND]
        # Filled up to a power of two: each length is a statement of its own.
        places = 1 << (len(part) - 1).bit_length()
        yield from connection.execute(statements.find(places), (*part, *[None] * (places - len(part))))
