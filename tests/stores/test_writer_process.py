"""A log whose writes another process makes: its end, its death, and a store that it cannot open."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import asyncio
import errno
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.deliveries import Quarantined, Receipt
from receiver.core.ports.log import DeliveryLog, LogItem, Probe
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import StoreError, StoreRefused
from receiver.stores.writer_process import process, starting
from receiver.stores.writer_process import process as log_module
from receiver.stores.writer_process.messages import (
    Frames,
    FrameSocket,
    LogBatch,
    Message,
    Opened,
    Written,
    batch_of,
    results_of,
)
from receiver.stores.writer_process.process import open_writer_process
from receiver.stores.writer_process.starting import writer_command, writer_started
from tests.doubles import NOON, appended, delivery, soon, turns
from tests.process.programs import children_of, command_line, stand_still
from tests.process.waiting import until, until_told

_ALL = 65_536
"""More bytes than the messages of a test have."""


def writers() -> list[int]:
    """Return the processes that write for this one."""
    return [pid for pid in children_of(os.getpid()) if "receiver.stores.writer_process" in command_line(pid)]


def opened(path: Path) -> AbstractAsyncContextManager[DeliveryLog]:
    """Open the store in this file in another process."""
    return open_writer_process(f"sqlite:///{path}", log_level="INFO", json_logs=False)


@pytest.fixture
async def log(path: Path) -> AsyncIterator[DeliveryLog]:
    """The log of a store that did not exist."""
    async with opened(path) as log:
        yield log


def stored(path: Path) -> set[str]:
    """Return the keys that the file has."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {key for (key,) in connection.execute("SELECT key FROM deliveries")}


def bytes_of(*messages: Message) -> bytes:
    """Return what a process sends with these messages."""
    ours, theirs = socket.socketpair()
    with theirs, ours:
        frames = FrameSocket(ours)
        for message in messages:
            frames.send(message)
        return theirs.recv(_ALL)


# --- the process


async def test_leaving_writes_what_was_submitted_and_ends_the_process(path: Path) -> None:
    """Then the database is closed, and its log is empty."""
    async with opened(path) as log:
        assert len(writers()) == 1
        receipts = [appended(log, delivery(f"k-{number}")) for number in range(1_000)]

    assert writers() == []
    assert all(receipt.result().outcome is AppendOutcome.ACCEPTED for receipt in receipts)
    assert not path.with_name("receiver.db-wal").exists()
    assert len(stored(path)) == 1_000


async def test_signals_do_not_end_the_process(log: DeliveryLog, path: Path) -> None:
    """A platform may send them to all processes. The web process still has to acknowledge what has arrived."""
    await appended(log, delivery("before"))
    (writer,) = writers()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(writer, number)

    await soon(appended(log, delivery("after")))

    assert writers() == [writer]
    assert stored(path) == {"before", "after"}


async def test_a_batch_fails_with_the_process_that_had_it_and_the_next_is_written(
    log: DeliveryLog, path: Path
) -> None:
    """Nobody knows whether it was kept, so the sender has to come again."""
    (writer,) = writers()
    await stand_still(writer)
    lost = appended(log, delivery("lost"))
    await turns()  # the batch is sent
    os.kill(writer, signal.SIGKILL)

    with pytest.raises(StoreError, match="died"):
        await soon(lost)
    await until(lambda: writers() not in ([], [writer]), "a new process")
    receipt = await soon(appended(log, delivery("next")))

    assert receipt.outcome is AppendOutcome.ACCEPTED
    assert "next" in stored(path)


async def test_what_comes_while_a_new_process_starts_is_written_by_it(
    log: DeliveryLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second later is soon enough for the sender."""
    (writer,) = writers()
    os.kill(writer, signal.SIGKILL)
    await until(lambda: "writer_ended" in caplog.text, "its end to be seen")

    receipts = await soon(asyncio.gather(*[appended(log, delivery(f"k-{number}")) for number in range(10)]))

    assert {receipt.outcome for receipt in receipts} == {AppendOutcome.ACCEPTED}
    assert len(stored(path)) == 10


async def test_a_store_that_cannot_be_opened_again_fails_deliveries_at_once(
    log: DeliveryLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They do not wait for it. When it can be opened again, they are taken again."""
    await appended(log, delivery("first"))
    (writer,) = writers()
    os.kill(writer, signal.SIGKILL)
    kept = path.with_name("kept.db")
    path.rename(kept)
    path.mkdir()
    await until(lambda: "writer_refused" in caplog.text, "the refusal of a new process")

    with pytest.raises(StoreError, match="Is a directory"):
        await soon(appended(log, delivery("refused")))
    with pytest.raises(StoreError, match="Is a directory"):
        await soon(log.probe(NOON))
    path.rmdir()
    kept.rename(path)

    async def is_open() -> bool:
        with suppress(StoreError):
            await log.probe(NOON)
            return True
        return False

    await until_told(is_open, "the store to be opened")
    await soon(appended(log, delivery("last")))

    assert {"first", "last"} <= stored(path)


async def test_a_new_process_does_not_make_a_database_that_was_moved_away(
    log: DeliveryLog, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The deliveries of before would be missing in it, and nobody would see it."""
    (writer,) = writers()
    path.rename(path.with_name("moved.db"))
    os.kill(writer, signal.SIGKILL)
    await until(lambda: "writer_refused" in caplog.text, "a refusal")

    with pytest.raises(StoreError, match="was moved or deleted"):
        await soon(appended(log, delivery()))

    assert not path.exists()


async def test_leaving_kills_a_process_that_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had fails, and so does what waited for it."""
    monkeypatch.setattr(process, "END_SECONDS", 0.2)
    async with opened(path) as log:
        (writer,) = writers()
        await stand_still(writer)
        lost = []
        for number in range(5):
            lost.append(appended(log, delivery(f"k-{number}")))
            await turns()

    assert writers() == []
    assert [isinstance(one.exception(), StoreError) for one in lost] == [True] * 5


# --- the start


async def test_a_store_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    """With the words of the store, and no process is left."""
    (tmp_path / "receiver.db").write_bytes(b"this is no database" * 100)

    with pytest.raises(StoreRefused, match="not a SQLite database"):
        async with opened(tmp_path / "receiver.db"):
            pass

    assert writers() == []


async def test_a_process_that_was_started_before_is_taken_over(path: Path) -> None:
    """No second one is started. It has ended when the log is closed."""
    store = f"sqlite:///{path}"
    with writer_started(writer_command(store, log_level="INFO", json_logs=False)) as started:
        async with open_writer_process(store, log_level="INFO", json_logs=False, started=started) as log:
            receipt = await soon(appended(log, delivery("k")))
            assert writers() == [started.process.pid]
        assert writers() == []

    assert receipt.outcome is AppendOutcome.ACCEPTED
    assert stored(path) == {"k"}


def test_a_started_process_that_nobody_takes_over_ends_with_the_block(path: Path) -> None:
    """As when the server cannot be loaded."""
    command = writer_command(f"sqlite:///{path}", log_level="INFO", json_logs=False)
    with writer_started(command) as started:
        assert started.process.poll() is None

    assert started.process.returncode == 0
    assert writers() == []


def test_a_started_process_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not see that its socket is closed."""
    monkeypatch.setattr(starting, "END_SECONDS", 0.1)
    with writer_started((sys.executable, "-c", "import signal; signal.pause()")) as started:
        pass

    assert started.process.returncode == -signal.SIGKILL


async def test_a_process_that_ends_at_once_is_told_with_its_end() -> None:
    """It may lack memory, or a part of the installation."""
    writer = process.WriterProcess((sys.executable, "-c", "raise SystemExit(7)"), lambda: True)

    with pytest.raises(StoreError, match="could not open the store: exit code 7"):
        await soon(writer.start())


async def test_a_stop_that_meets_a_process_before_it_ignores_signals_starts_another(tmp_path: Path) -> None:
    """A platform signals all processes at once. The web process would report a failure."""
    script = f"""
import os, pathlib, runpy, signal
mark = pathlib.Path({str(tmp_path / "mark")!r})
if not mark.exists():
    mark.touch()
    os.kill(os.getpid(), signal.SIGTERM)
runpy.run_module("receiver.stores.writer_process", run_name="__main__", alter_sys=True)
"""
    store = f"sqlite:///{tmp_path}/receiver.db"
    writer = process.WriterProcess((sys.executable, "-c", script, store, "INFO", "text"), lambda: True)

    await soon(writer.start())
    assert await soon(writer.write([delivery("k")])) == [Receipt(DeliveryKey("k"), AppendOutcome.ACCEPTED)]
    await soon(writer.stop(after=asyncio.sleep(0)))


async def test_a_process_that_closes_its_socket_and_goes_on_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed: two processes must not write."""
    monkeypatch.setattr(process, "END_SECONDS", 0.2)
    script = f"""
import pathlib, runpy, signal, socket, sys
mark = pathlib.Path({str(tmp_path / "mark")!r})
if not mark.exists():
    mark.touch()
    there = socket.socket(fileno=int(sys.argv[-1]))
    there.sendall({bytes_of(Opened())!r})
    there.close()
    signal.pause()
runpy.run_module("receiver.stores.writer_process", run_name="__main__", alter_sys=True)
"""
    store = f"sqlite:///{tmp_path}/receiver.db"
    writer = process.WriterProcess((sys.executable, "-c", script, store, "INFO", "text"), lambda: True)

    await soon(writer.start())

    async def is_written() -> bool:
        with suppress(StoreError):
            return await writer.write([delivery("k")]) != []
        return False

    await until_told(is_written, "a new process to write")
    await soon(writer.stop(after=asyncio.sleep(0)))
    assert stored(tmp_path / "receiver.db") == {"k"}


# --- the messages


ITEMS: tuple[LogItem, ...] = (
    delivery("a", body=bytes(range(256)), headers=(("x-latin", "\xe9"), ("x-latin", ""))),
    Quarantined(NOON, "malformed", "no envelope", None, (("a", "b"),), b"\0"),
    delivery("b", success=None, job_id=None),
    Probe(NOON, 512),
)


class Taken:
    """What Frames has taken, and whether the other process has ended."""

    def __init__(self, connection: socket.socket) -> None:
        self.messages: list[Message] = []
        self.ends = 0
        self.frames = Frames(connection, self.messages.append, self._note_end)

    def _note_end(self) -> None:
        self.ends += 1


@given(st.data())
def test_messages_arrive_as_they_were_sent_however_they_are_cut(data: st.DataObject) -> None:
    """A socket may give any number of bytes at a time."""
    messages: list[Message] = [batch_of(ITEMS), Written([AppendOutcome.CONFLICT]), batch_of(())]

    async def receive(stream: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            taken = Taken(ours)
            while stream:
                count = data.draw(st.integers(1, len(stream)))
                theirs.sendall(stream[:count])
                stream = stream[count:]
                taken.frames.look()
        taken.frames.look()
        assert (taken.messages, taken.ends) == (messages, 1)

    asyncio.run(receive(bytes_of(*messages)))


async def test_messages_that_the_other_process_does_not_read_yet_follow_in_their_order() -> None:
    """The system keeps only a part of them. What it does not keep is sent when the other process has read that."""
    ours, theirs = socket.socketpair()
    batches = [LogBatch([delivery(f"{number}", body=bytes(3_000_000))], [], []) for number in range(4)]
    with theirs:
        frames = Taken(ours).frames
        for batch in batches:
            frames.send(batch)
        other = FrameSocket(theirs)
        received = [await soon(asyncio.to_thread(other.receive)) for _ in batches]
    assert received == batches


async def test_a_message_is_on_its_way_before_the_turn_of_the_event_loop_ends() -> None:
    """The other process works on it meanwhile, and its answer can be taken in the same turn."""
    ours, theirs = socket.socketpair()
    with theirs:
        taken = Taken(ours)
        taken.frames.send(batch_of(ITEMS))
        other = FrameSocket(theirs)
        assert other.receive() == batch_of(ITEMS)
        other.send(Written([AppendOutcome.CONFLICT]))
        taken.frames.look()
        assert taken.messages == [Written([AppendOutcome.CONFLICT])]


@pytest.mark.parametrize("by", ["reading", "writing"])
async def test_the_end_of_the_other_process_is_noted_once(by: str) -> None:
    """Whether it shows when a message is read or written. Messages after that go nowhere."""
    ours, theirs = socket.socketpair()
    taken = Taken(ours)
    theirs.close()
    if by == "reading":
        taken.frames.look()
    else:
        taken.frames.send(Opened())
        assert taken.ends == 0  # whoever sends has not noted yet that an answer is owed
    await turns(3)
    taken.frames.send(Opened())
    taken.frames.look()
    taken.frames.close()
    assert (taken.messages, taken.ends) == ([], 1)


class Cut:
    """A socket that gives a part of what is asked for, and then its end."""

    def __init__(self, stream: bytes, data: st.DataObject) -> None:
        self._stream = stream
        self._data = data

    def setblocking(self, flag: bool) -> None:
        """Do nothing."""

    def recv_into(self, buffer: memoryview) -> int:
        """Give some bytes; none at the end."""
        if not self._stream:
            return 0
        count: int = self._data.draw(st.integers(1, min(len(buffer), len(self._stream))))
        buffer[:count], self._stream = self._stream[:count], self._stream[count:]
        return count


@given(st.data())
def test_a_thread_reads_messages_however_they_are_cut_until_the_stream_ends(data: st.DataObject) -> None:
    """A message of which only a part has come is none: its process has ended."""
    messages: list[Message] = [batch_of(ITEMS), Written([AppendOutcome.CONFLICT]), batch_of(())]
    whole, last = bytes_of(*messages), bytes_of(Opened())
    stream = whole + last[: data.draw(st.integers(0, len(last) - 1))]
    frames = FrameSocket(Cut(stream, data))  # type: ignore[arg-type]

    assert [frames.receive() for _ in range(4)] == [*messages, None]


def test_a_thread_sends_what_the_other_process_reads() -> None:
    """To one that has ended it sends nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = FrameSocket(ours)
        frames.send(Written([AppendOutcome.ACCEPTED]))
        assert FrameSocket(theirs).receive() == Written([AppendOutcome.ACCEPTED])
        theirs.close()
        frames.send(Opened())
        assert frames.receive() is None


async def test_what_is_no_message_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing after it can be trusted. Whoever looks gets no error: it may be another request."""
    ours, theirs = socket.socketpair()
    with theirs:
        taken = Taken(ours)
        theirs.sendall(bytes_of(Opened()) + (3).to_bytes(4, "little") + b"xyz")
        taken.frames.look()

    assert (taken.messages, taken.ends) == ([Opened()], 1)
    assert [record.message for record in caplog.records] == ["batch_not_written"]


class Full(socket.socket):
    """A socket for which the system has no memory."""

    def sendmsg(self, *_: object) -> int:
        """Send nothing."""
        raise OSError(errno.ENOBUFS, "no memory")


async def test_a_connection_that_cannot_be_written_to_ends_and_its_last_message_counts() -> None:
    """A part of a frame would be on its way, and all that follows would be lost."""
    ours, theirs = socket.socketpair()
    with theirs:
        taken = Taken(Full(fileno=ours.detach()))
        theirs.sendall(bytes_of(Written([AppendOutcome.ACCEPTED])))
        taken.frames.send(Opened())
        assert taken.ends == 0
        await turns(3)

    assert (taken.messages, taken.ends) == ([Written([AppendOutcome.ACCEPTED])], 1)


async def test_nothing_runs_while_there_is_nothing_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket with room is always ready: to go on asking for that would take a whole core."""
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    waiting: list[str] = []
    monkeypatch.setattr(loop, "add_writer", lambda *_: waiting.append("add"))
    monkeypatch.setattr(loop, "remove_writer", lambda *_: waiting.append("remove"))
    with theirs:
        frames = Taken(ours).frames
        frames.send(LogBatch([delivery("k", body=bytes(20_000_000))], [], []))
        assert waiting == ["add"]
        frames.close()

    assert waiting == ["add", "remove"]
    frames.send(Opened())
    assert waiting == ["add", "remove"]


async def test_parts_of_one_turn_are_written_while_the_turn_goes_on(log: DeliveryLog, path: Path) -> None:
    """The third part needs the place of another one, whose answer is seen within the turn too."""
    futures: list[asyncio.Future[Receipt]] = []

    def three_parts() -> bool:
        return len(stored(path)) == 3 * log_module.PART

    def two_parts() -> bool:
        return len(stored(path)) == 2 * log_module.PART

    with ThreadPoolExecutor(1) as thread:  # it polls while this turn of the event loop goes on
        futures += [appended(log, delivery(f"{number}")) for number in range(2 * log_module.PART)]
        thread.submit(asyncio.run, until(two_parts, "two parts to be stored")).result()
        futures += [appended(log, delivery(f"later-{number}")) for number in range(log_module.PART)]
        thread.submit(asyncio.run, until(three_parts, "three parts to be stored")).result()
    assert not any(one.done() for one in futures)
    receipts = await soon(asyncio.gather(*futures))

    assert {one.outcome for one in receipts} == {AppendOutcome.ACCEPTED}


@pytest.mark.parametrize("outcomes", [[], [AppendOutcome.ACCEPTED], [AppendOutcome.ACCEPTED] * 3])
def test_other_than_one_outcome_for_each_delivery_is_an_error(outcomes: list[AppendOutcome]) -> None:
    """Nobody knows which delivery has none."""
    with pytest.raises(RuntimeError, match="one outcome"):
        results_of(ITEMS, Written(outcomes))


def test_each_delivery_gets_its_own_outcome() -> None:
    """What is not a delivery gets none."""
    results = results_of(ITEMS, Written([AppendOutcome.DUPLICATE, AppendOutcome.ACCEPTED]))

    assert [result and (result.key, result.outcome) for result in results] == [
        ("a", "duplicate"),
        None,
        ("b", "accepted"),
        None,
    ]
