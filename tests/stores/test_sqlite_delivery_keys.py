"""The index of keys follows behind the deliveries, and a stored key is found at every moment of that."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from receiver.core.deliveries import Delivery
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.stores.sqlite import bodies, delivery_keys, statements
from receiver.stores.sqlite.database import transaction
from receiver.stores.sqlite.delivery_keys import DeliveryKeys, add_functions, index_key
from receiver.stores.sqlite.dialect import READS, WRITES
from receiver.stores.sqlite.log import insert_deliveries
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.write_ahead_log import log_path
from tests.doubles import delivery
from tests.stores.rows import select

ACCEPTED, DUPLICATE = AppendOutcome.ACCEPTED, AppendOutcome.DUPLICATE
FEW = 400
"""Keys that gather here before they are moved: more than one call moves."""


Make = Callable[[int], list[DeliveryKey]]


def uuids(count: int, seed: int = 0) -> list[DeliveryKey]:
    """Return random keys, always the same ones."""
    random = Random(seed)
    return [DeliveryKey(str(UUID(int=random.getrandbits(128), version=4))) for _ in range(count)]


@pytest.fixture
def connection(made: Path) -> Iterator[sqlite3.Connection]:
    """A connection as the store has it."""
    with closing(connected(made)) as connection:
        yield connection


def connected(path: Path) -> sqlite3.Connection:
    """Return a connection as the store has it."""
    connection = sqlite3.connect(path, isolation_level=None)
    add_functions(connection)
    bodies.add_functions(connection, path)
    return connection


def store(
    connection: sqlite3.Connection,
    keys: DeliveryKeys,
    wanted: Sequence[DeliveryKey],
    *,
    part: int = 50,
    then: str = "SELECT 1",
) -> list[AppendOutcome]:
    """Store a delivery for each key, some in each transaction, at whose end another statement runs."""
    outcomes: list[AppendOutcome] = []
    for start in range(0, len(wanted), part):
        with keys.changes(connection), transaction(connection, timedelta(seconds=5)):
            some: list[Delivery] = [delivery(key) for key in wanted[start : start + part]]
            outcomes += [one.outcome for one in insert_deliveries(connection, keys, some)]
            connection.execute(then)
    return outcomes


def moved(path: Path) -> tuple[int, int]:
    """Return how many keys the index has, and the seq up to which it has all."""
    ((count, keyed),) = select(
        path, "SELECT (SELECT count(*) FROM delivery_keys), (SELECT value FROM marks WHERE name = 'keyed')"
    )
    return count, keyed


def test_a_stored_key_is_found_before_while_and_after_it_is_moved(
    connection: sqlite3.Connection, made: Path
) -> None:
    """All keys are duplicates after each transaction, for their writer and for one that has just begun."""
    keys, wanted = DeliveryKeys(gathered=FEW), uuids(4 * FEW)
    marks = set()

    for end in range(100, len(wanted) + 1, 100):
        assert store(connection, keys, wanted[end - 100 : end]) == [ACCEPTED] * 100
        assert set(keys.find(connection, wanted)) == set(wanted[:end])
        assert set(DeliveryKeys().find(connection, wanted)) == set(wanted[:end])
        marks.add(moved(made)[1])

    assert len(marks) > 2
    assert store(connection, keys, wanted) == [DUPLICATE] * len(wanted)


def test_two_deliveries_with_one_key_in_one_transaction_are_one(connection: sqlite3.Connection) -> None:
    """The second is a duplicate of the first."""
    one, other = uuids(2)

    assert store(connection, DeliveryKeys(), [one, other, one]) == [ACCEPTED, ACCEPTED, DUPLICATE]


def test_two_writers_find_what_the_other_has_stored_and_moved(made: Path) -> None:
    """They take turns; each stores keys that the other has, and both move keys."""
    wanted, random = uuids(6 * FEW), Random(1)
    with closing(connected(made)) as one, closing(connected(made)) as other:
        writers = [(one, DeliveryKeys(gathered=FEW)), (other, DeliveryKeys(gathered=FEW))]
        known: set[DeliveryKey] = set()
        while len(known) < len(wanted):
            chosen = random.sample(wanted, 60)
            expected = [DUPLICATE if key in known else ACCEPTED for key in chosen]
            assert store(*random.choice(writers), chosen) == expected
            known |= set(chosen)

    assert moved(made)[1] > FEW
    assert select(made, "SELECT count(*), count(DISTINCT key) FROM deliveries") == [(len(wanted), len(wanted))]


def texts(count: int) -> list[DeliveryKey]:
    """Return keys that are no UUIDs."""
    return [DeliveryKey(f"webhook-{number}") for number in range(count)]


def timed_uuids(count: int) -> list[DeliveryKey]:
    """Return UUIDs of version 7, which begin with the time (RFC 9562, section 5.7)."""
    random = Random(1)
    return [
        DeliveryKey(f"01890a5d-{number // 9:04x}-7{random.getrandbits(12):03x}-8000-{random.getrandbits(48):012x}")
        for number in range(count)
    ]


@pytest.mark.parametrize("make", [uuids, texts, timed_uuids])
def test_each_process_goes_on_where_the_one_before_ended(
    connection: sqlite3.Connection, made: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    """However seldom one lives until all buckets are moved, or a large one, few keys wait for it."""
    monkeypatch.setattr(delivery_keys, "_MAX_MOVED", 256)
    wanted = make(20 * FEW)

    for end in range(50, len(wanted) + 1, 50):
        keys = DeliveryKeys(gathered=FEW)
        assert store(connection, keys, [*wanted[end - 50 : end], *wanted[: end - 50 : 97]]).count(ACCEPTED) == 50
        assert end - moved(made)[1] < 3 * FEW

    assert set(DeliveryKeys().find(connection, wanted)) == set(wanted)


def test_what_others_store_is_moved_too(connection: sqlite3.Connection, made: Path) -> None:
    """A worker stores its scheduled runs without an index of keys. There may be more of them than of deliveries."""
    keys, wanted = DeliveryKeys(gathered=FEW), uuids(40)

    for number, key in enumerate(wanted, start=1):
        for run in range(100):
            schedule(connection, f"run-{number}-{run}")
        store(connection, keys, [key])
        assert number * 101 - moved(made)[1] < 3 * FEW


def schedule(connection: sqlite3.Connection, key: str) -> None:
    """Store a delivery as a worker does."""
    assert connection.execute(statements.HAS_DELIVERY, {"key": key}).fetchone() is None
    row = (key, "schedule.run", None, None, None, 0, 1, "schedule")
    (seq,) = connection.execute(statements.INSERT_DELIVERY, row).fetchone()
    connection.execute(statements.insert_bodies(1), (seq, "[]", b"b", 0))


def twins(count: int) -> list[DeliveryKey]:
    """Return UUIDs with the same ends."""
    return [DeliveryKey(f"01234567-{number:04x}-4000-8000-000089abcdef") for number in range(count)]


def test_many_keys_with_the_same_ends_are_found_by_one_statement(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each pair of such keys would hold up all other writers."""
    monkeypatch.setattr(delivery_keys, "_MOVED_AT_ONCE", 1)
    keys = DeliveryKeys(gathered=10)
    store(connection, keys, [*twins(300), *uuids(300)])
    seen: list[str] = []

    connection.set_trace_callback(seen.append)
    assert DeliveryKeys().find(connection, twins(200)).keys() == set(twins(200))

    assert sum("FROM delivery_keys" in one for one in seen) == 1
    assert len(seen) < 50


@pytest.mark.parametrize("seed", range(40))
def test_any_number_of_writers_agree_with_the_table(made: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """They take turns, fail, die and begin; deliveries are pruned, and some are stored by others."""
    random = Random(seed)
    for name, values in (("_GIVEN_FOR_ONE", (2, 64)), ("_MOVED_AT_ONCE", (1, 5)), ("_MAX_MOVED", (2, 16))):
        monkeypatch.setattr(delivery_keys, name, random.choice(values))
    monkeypatch.setattr(delivery_keys, "_MOST_GATHERED", 30)
    hashes = [DeliveryKey(f"sha256:{random.choice('ab') * 8}{'0' * 46}{number:010x}") for number in range(9)]
    pool = [*twins(9), *uuids(20, seed=seed), *timed_uuids(9), *texts(9), *hashes]
    there: dict[DeliveryKey, int] = {}
    with ExitStack() as stack:
        main = stack.enter_context(closing(connected(made)))

        def begin() -> tuple[sqlite3.Connection, DeliveryKeys]:
            return stack.enter_context(closing(connected(made))), DeliveryKeys(gathered=random.choice([2, 6, 12]))

        writers = [begin() for _ in range(random.randint(1, 3))]
        for _ in range(60):
            place = random.randrange(len(writers))
            connection, keys = writers[place]
            chosen = random.sample(pool, random.randint(1, 8))
            match random.randrange(8):
                case 0:
                    writers[place] = begin()
                case 1:
                    with pytest.raises(sqlite3.OperationalError):
                        store(connection, keys, chosen, then="no statement")
                case 2 if there:
                    gone = random.sample(sorted(there.values()), random.randint(1, len(there)))
                    with transaction(main, timedelta(seconds=5)):
                        for statement in WRITES.sql.remove_all:
                            main.execute(statement, {"seqs": json.dumps(gone)})
                case 3 if chosen[0] not in there:
                    schedule(main, chosen[0])
                case _:
                    new = [one is ACCEPTED for one in store(connection, keys, chosen)]
                    assert new == [key not in there for key in chosen]
            there = {DeliveryKey(key): seq for key, seq in main.execute("SELECT key, seq FROM deliveries")}
            assert keys.find(connection, pool) == there
            assert DeliveryKeys().find(main, pool) == there
            is_there = main.execute(statements.HAS_DELIVERY, {"key": chosen[0]}).fetchone() is not None
            assert is_there == (chosen[0] in there)
            beginning = {"first": chosen[0][:9], "above": chosen[0][:9] + "\x7f", "rows": 99}
            begun = {key for (key,) in main.execute(READS.deliveries.keys_from, beginning)}
            assert begun == {key for key in there if key.startswith(chosen[0][:9])}
            assert main.execute(ORPHANS).fetchall() == []


ORPHANS = "SELECT * FROM delivery_keys WHERE seq NOT IN (SELECT seq FROM deliveries)"


def test_a_transaction_that_fails_loses_no_key(connection: sqlite3.Connection, made: Path) -> None:
    """What it stored is new again, and what it moved is moved again."""
    keys, wanted = DeliveryKeys(gathered=FEW), uuids(4 * FEW)

    for start in range(0, len(wanted), 50):
        some = wanted[start : start + 50]
        with pytest.raises(sqlite3.OperationalError):
            store(connection, keys, some, then="no statement")
        assert store(connection, keys, some) == [ACCEPTED] * 50

    count, keyed = moved(made)
    assert keyed > FEW
    assert select(made, f"SELECT count(*) FROM deliveries WHERE seq <= {keyed}") == [(keyed,)]
    assert set(DeliveryKeys().find(connection, wanted)) == set(wanted)
    assert count >= keyed


def test_a_transaction_without_deliveries_keeps_nothing_of_one_that_failed(connection: sqlite3.Connection) -> None:
    """A probe of the store may succeed on a disk that is too full for a delivery."""
    keys, wanted = DeliveryKeys(), uuids(2)
    with pytest.raises(sqlite3.OperationalError):
        store(connection, keys, wanted, then="no statement")

    with keys.changes(connection), transaction(connection, timedelta(seconds=5)):
        connection.execute("UPDATE marks SET value = value + 1 WHERE name = 'probe'")

    assert store(connection, keys, wanted) == [ACCEPTED, ACCEPTED]


def test_keys_that_are_texts_or_hashes_are_moved_and_found_too(connection: sqlite3.Connection, made: Path) -> None:
    """Older senders give no webhookId, and others give what they like."""
    keys = DeliveryKeys(gathered=FEW)
    wanted = [DeliveryKey(f"webhook-{number}") for number in range(2 * FEW)]
    wanted += [DeliveryKey(f"sha256:{sha256(key.encode()).hexdigest()}") for key in wanted]

    assert set(store(connection, keys, wanted)) == {ACCEPTED}
    assert set(store(connection, keys, wanted)) == {DUPLICATE}
    assert moved(made)[0] > FEW


async def test_a_delivery_that_was_pruned_before_its_key_was_moved_can_come_again(
    connection: sqlite3.Connection, made: Path
) -> None:
    """Its key is not in the index, and the new delivery has another seq."""
    keys, wanted = DeliveryKeys(gathered=FEW), uuids(3 * FEW)
    store(connection, keys, wanted[:100])
    for statement in WRITES.sql.remove_all:
        connection.execute(statement, {"seqs": json.dumps(list(range(1, 11)))})
    store(connection, keys, wanted[100:])

    assert moved(made)[1] >= 100
    assert select(made, "SELECT count(*) FROM delivery_keys WHERE seq <= 10") == [(0,)]
    assert store(connection, keys, wanted[:20]) == [ACCEPTED] * 10 + [DUPLICATE] * 10


@pytest.mark.parametrize("gathered", [10, 10_000])
async def test_the_beginning_of_an_id_finds_it_in_the_index_and_before(made: Path, gathered: int) -> None:
    """Be it of a UUID, of a hash, or of any text."""
    wanted = [*uuids(100), DeliveryKey("sha256:" + "0f" * 32), DeliveryKey("abc"), DeliveryKey("abc-1")]
    with closing(connected(made)) as connection:
        store(connection, DeliveryKeys(gathered=gathered), [*wanted, *uuids(400, seed=2)])
    assert (moved(made)[1] > len(wanted)) == (gathered == 10)

    async with SqliteStore(f"sqlite:///{made}").reports() as reports:
        assert [await reports.resolve(key[:13]) for key in wanted] == wanted
        assert await reports.resolve("sha2") == wanted[100]
        assert [(await reports.detail(key)).summary.key for key in wanted] == wanted


def test_a_delivery_writes_no_page_of_its_own_for_its_key(connection: sqlite3.Connection, made: Path) -> None:
    """A transaction of 64 writes fewer than 64 pages beside 20,000 keys, also while keys are moved."""
    keys, wanted = DeliveryKeys(gathered=16_384), uuids(20_000 + 64 * 20)
    store(connection, keys, wanted[:20_000], part=500)
    assert moved(made)[0] > 0
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    store(connection, keys, wanted[20_000:], part=64)

    assert log_path(made).stat().st_size / 8192 < 20 * 64 / 2


def test_the_index_has_both_ends_of_a_key() -> None:
    """A UUID in capitals and a hash of another length are other ids, and stay texts."""
    key = uuids(1)[0]

    assert index_key(key) == UUID(key).bytes[:4] + UUID(key).bytes[-4:]
    assert index_key("sha256:" + "ab" * 4 + "00" * 23 + "cd" * 5) == b"\xab" * 4 + b"\xcd" * 5
    for other in (key.upper(), key.replace("-", ""), "sha256:ab", f"{key} ", "", "sha256:" + "AB" * 32):
        assert index_key(other) == other


@pytest.mark.parametrize("gathered", [3, FEW])
async def test_keys_with_the_same_ends_are_told_apart(made: Path, gathered: int) -> None:
    """In the index and before: each is found, resolved by its beginning and pruned without the other."""
    same = twins(4)
    with closing(connected(made)) as connection:
        keys = DeliveryKeys(gathered=gathered)
        assert store(connection, keys, same[:2], part=2) == [ACCEPTED] * 2
        assert store(connection, keys, uuids(300), part=100) == [ACCEPTED] * 300
        assert (moved(made)[1] >= 2) == (gathered == 3)
        assert store(connection, keys, same) == [DUPLICATE] * 2 + [ACCEPTED] * 2
        assert keys.find(connection, same).keys() == set(same)

        async with SqliteStore(f"sqlite:///{made}").reports() as reports:
            assert [await reports.resolve(key[:13]) for key in same] == same
            assert [(await reports.detail(key)).summary.key for key in same] == same

        for statement in WRITES.sql.remove_all:
            connection.execute(statement, {"seqs": "[1]"})
        assert store(connection, keys, same) == [ACCEPTED] + [DUPLICATE] * 3


@pytest.mark.parametrize(("most", "waiting"), [(FEW, range(FEW, 2 * FEW)), (10 * FEW, range(4 * FEW, 8 * FEW))])
def test_more_keys_gather_where_more_are_stored(
    connection: sqlite3.Connection, made: Path, monkeypatch: pytest.MonkeyPatch, most: int, waiting: range
) -> None:
    """The index has more pages then, and each is to get several keys; but memory is bounded."""
    monkeypatch.setattr(delivery_keys, "_GIVEN_FOR_ONE", 4)
    monkeypatch.setattr(delivery_keys, "_MOST_GATHERED", most)
    keys, wanted = DeliveryKeys(gathered=FEW), uuids(20 * FEW)
    behind = 0

    for end in range(FEW, len(wanted) + 1, FEW):
        store(connection, keys, wanted[end - FEW : end], part=100)
        behind = max(behind, end - moved(made)[1])

    assert behind in waiting
