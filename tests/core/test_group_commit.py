"""Items gather while one batch is written; failures and the end."""

import asyncio
import gc
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from receiver.core.batches import GroupCommit
from tests.doubles import soon, turns


class Disk:
    """Writes when the test says so. A result is the item in upper case."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self._going: list[asyncio.Future[None]] = []

    async def write(self, batch: list[str]) -> Sequence[str]:
        """Wait for `finish`."""
        self.batches.append(batch)
        self._going.append(asyncio.get_running_loop().create_future())
        await self._going[-1]
        return [item.upper() for item in batch]

    async def finish(self, error: BaseException | None = None) -> None:
        """End the present batch, and let the next one begin."""
        await turns(5)
        going = self._going.pop()
        if error is None:
            going.set_result(None)
        else:
            going.set_exception(error)
        await turns(5)


@pytest.fixture
def disk() -> Disk:
    """A slow disk."""
    return Disk()


async def test_items_submitted_during_a_write_are_the_next_batch(disk: Disk) -> None:
    """There is no timer: the first item is written at once, and then all others together."""
    commits = GroupCommit(disk.write, max_items=10)
    first = commits.submit("a")
    await turns(5)
    others = [commits.submit(item) for item in "bcd"]
    await turns(5)
    assert disk.batches == [["a"]]
    assert not first.done()

    await disk.finish()
    assert (first.result(), [other.done() for other in others]) == ("A", [False] * 3)
    assert disk.batches == [["a"], ["b", "c", "d"]]

    await disk.finish()
    assert [other.result() for other in others] == ["B", "C", "D"]


async def test_items_submitted_in_one_turn_are_one_batch(disk: Disk) -> None:
    """Requests that arrive together share a sync."""
    commits = GroupCommit(disk.write, max_items=10)
    futures = [commits.submit(item) for item in "abc"]
    await disk.finish()

    assert disk.batches == [["a", "b", "c"]]
    assert [future.result() for future in futures] == ["A", "B", "C"]


async def test_a_batch_has_a_largest_number_of_items(disk: Disk) -> None:
    """The others follow in the next batch, in their order."""
    commits = GroupCommit(disk.write, max_items=2)
    futures = [commits.submit(item) for item in "abcde"]
    for _ in range(3):
        await disk.finish()

    assert disk.batches == [["a", "b"], ["c", "d"], ["e"]]
    assert [future.result() for future in futures] == list("ABCDE")


@pytest.mark.parametrize(
    ("items", "batches"),
    [
        (["aa", "aa"], [["aa", "aa"]]),
        (["aaa", "aa"], [["aaa"], ["aa"]]),
        (["aaaaaaa", "b", "c"], [["aaaaaaa"], ["b", "c"]]),
        (["a", "aaaaaaa", "b"], [["a"], ["aaaaaaa"], ["b"]]),
        (["", "", "aaaa", "", "b"], [["", "", "aaaa", ""], ["b"]]),
    ],
)
async def test_a_batch_has_a_largest_size(disk: Disk, items: list[str], batches: list[list[str]]) -> None:
    """It always holds one item. Empty items always fit."""
    commits = GroupCommit(disk.write, max_items=100, size_of=len, max_bytes=4)
    futures = [commits.submit(item) for item in items]
    for _ in batches:
        await disk.finish()

    assert disk.batches == batches
    assert all(future.done() for future in futures)


async def test_a_failed_batch_fails_only_its_own_items(disk: Disk) -> None:
    """The items behind it are written."""
    commits = GroupCommit(disk.write, max_items=2)
    futures = [commits.submit(item) for item in "abcd"]
    await disk.finish(OSError("full"))
    await disk.finish()

    for future in futures[:2]:
        with pytest.raises(OSError, match="full"):
            await future
    assert [future.result() for future in futures[2:]] == ["C", "D"]


async def test_a_failure_without_a_waiter_gives_no_warning(disk: Disk) -> None:
    """Its sender has an answer already."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    commits = GroupCommit(disk.write, max_items=2)
    commits.submit("a")
    await disk.finish(OSError("full"))
    gc.collect()

    assert reported == []


async def test_a_cancelled_future_does_not_stop_its_item(disk: Disk) -> None:
    """Its batch is written too, whether it is cancelled before or during the write."""
    commits = GroupCommit(disk.write, max_items=10)
    early, during, waiting = (commits.submit(item) for item in "abc")
    early.cancel()
    await turns(5)
    during.cancel()
    await disk.finish()

    assert disk.batches == [["a", "b", "c"]]
    assert waiting.result() == "C"


async def test_a_cancelled_future_does_not_stop_a_failure(disk: Disk) -> None:
    """The other futures of the batch fail."""
    commits = GroupCommit(disk.write, max_items=10)
    early, waiting = (commits.submit(item) for item in "ab")
    early.cancel()
    await disk.finish(OSError("full"))

    assert isinstance(waiting.exception(), OSError)


async def test_it_takes_new_items_after_a_rest(disk: Disk) -> None:
    """Also after a failure."""
    commits = GroupCommit(disk.write, max_items=10)
    for error in (None, OSError("full"), None):
        future = commits.submit("a")
        await disk.finish(error)
        assert future.done()


async def test_closing_waits_for_everything_submitted(disk: Disk) -> None:
    """It also waits for items behind the present batch."""
    commits = GroupCommit(disk.write, max_items=1)
    futures = [commits.submit(item) for item in "abc"]
    closing = asyncio.create_task(commits.aclose())
    for number in range(3):
        await turns(5)
        assert not closing.done(), number
        await disk.finish(OSError("full") if number == 1 else None)
    await soon(closing)

    assert [future.exception() is None for future in futures] == [True, False, True]


async def test_closing_with_nothing_submitted_returns(disk: Disk) -> None:
    """Before the first item and after the last one."""
    commits = GroupCommit(disk.write, max_items=1)
    await commits.aclose()
    commits.submit("a")
    await disk.finish()
    await commits.aclose()


async def test_a_writer_that_is_cancelled_leaves_nobody_waiting(disk: Disk) -> None:
    """When the event loop ends, every future is done, and none has a result."""
    commits = GroupCommit(disk.write, max_items=1)
    futures = [commits.submit(item) for item in "abc"]
    await disk.finish(asyncio.CancelledError())
    await commits.aclose()

    assert [future.done() for future in futures] == [True] * 3
    assert all(future.cancelled() or future.exception() for future in futures)


async def test_a_writer_that_is_cancelled_before_it_begins_leaves_nobody_waiting(disk: Disk) -> None:
    """The end of an event loop cancels all tasks, also those that have not begun."""
    commits, before = GroupCommit(disk.write, max_items=1), asyncio.all_tasks()
    future = commits.submit("a")
    await turns(1)
    (writer,) = asyncio.all_tasks() - before

    writer.cancel()
    await soon(commits.aclose())

    assert future.cancelled()


async def test_a_write_with_too_few_results_fails_its_batch() -> None:
    """A store with such a mistake acknowledges nothing, and every waiter gets an error."""

    async def write(batch: list[str]) -> Sequence[str]:
        return batch[:-1]

    commits: GroupCommit[str, str] = GroupCommit(write, max_items=10)
    futures = [commits.submit(item) for item in "ab"]
    await turns()

    assert futures[1].done()
    assert futures[1].exception() is not None


async def test_a_second_batch_is_written_beside_the_first(disk: Disk) -> None:
    """With two at once; the next items gather until one of them has ended."""
    commits = GroupCommit(disk.write, max_items=10, at_once=2)
    futures = []
    for items in ("a", "bc", "d"):
        futures += [commits.submit(item) for item in items]
        await turns(5)
    assert disk.batches == [["a"], ["b", "c"]]

    await disk.finish()
    assert [future.done() for future in futures] == [False, True, True, False]
    assert disk.batches == [["a"], ["b", "c"], ["d"]]

    await disk.finish()
    await disk.finish()
    assert [future.result() for future in futures] == ["A", "B", "C", "D"]


async def test_items_of_one_turn_are_one_batch_though_two_may_be_written(disk: Disk) -> None:
    """The second place is for what comes while the first batch is written."""
    commits = GroupCommit(disk.write, max_items=10, at_once=2)
    futures = [commits.submit(item) for item in "abc"]
    await turns(5)
    assert disk.batches == [["a", "b", "c"]]

    await disk.finish()
    assert [future.result() for future in futures] == ["A", "B", "C"]


async def test_closing_waits_for_all_batches_that_are_written(disk: Disk) -> None:
    """Also for the second one, whichever ends first."""
    commits = GroupCommit(disk.write, max_items=1, at_once=2)
    futures = []
    for item in "abc":
        futures.append(commits.submit(item))
        await turns(5)
    closing = asyncio.create_task(commits.aclose())
    for _ in range(3):
        assert not closing.done()
        await disk.finish()
    await soon(closing)

    assert [future.result() for future in futures] == ["A", "B", "C"]


class Beside:
    """Writes beside the event loop: a batch is on its way when `write` returns, and `look` sees what has ended."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.answers: list[Sequence[str]] = []
        self._owed: list[asyncio.Future[Sequence[str]]] = []

    def write(self, batch: list[str]) -> asyncio.Future[Sequence[str]]:
        """Take a batch."""
        self.batches.append(batch)
        self._owed.append(asyncio.get_running_loop().create_future())
        return self._owed[-1]

    def look(self) -> None:
        """Resolve the futures of the answers that have come."""
        while self.answers:
            self._owed.pop(0).set_result(self.answers.pop(0))


async def test_a_part_of_a_turn_is_written_before_the_turn_ends() -> None:
    """The rest of the turn waits for a free place, and looks whether there is one."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=10, at_once=2, part=2, look=beside.look)
    futures = [commits.submit(item) for item in "abcde"]
    assert beside.batches == [["a", "b"], ["c", "d"]]

    futures.append(commits.submit("f"))
    assert beside.batches == [["a", "b"], ["c", "d"]]

    beside.answers.append("AB")
    futures.append(commits.submit("g"))
    assert beside.batches == [["a", "b"], ["c", "d"], ["e", "f", "g"]]

    beside.answers += ["CD", "EFG"]
    beside.look()
    await turns(5)
    assert [future.result() for future in futures] == list("ABCDEFG")


async def test_less_than_a_part_waits_while_a_batch_is_written() -> None:
    """For more, or for the end of that batch."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=10, at_once=2, part=2, look=beside.look)
    for item in "abc":
        commits.submit(item)
    await turns(5)
    assert beside.batches == [["a", "b"]]

    commits.submit("d")
    assert beside.batches == [["a", "b"], ["c", "d"]]

    commits.submit("e")
    beside.answers += ["AB", "CD"]
    beside.look()
    await turns(5)
    assert beside.batches == [["a", "b"], ["c", "d"], ["e"]]


async def test_less_than_a_part_is_written_at_the_end_of_its_turn() -> None:
    """Nothing else is written, so nobody waits for more."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=10, at_once=2, part=3, look=beside.look)
    for item in "ab":
        commits.submit(item)
    assert beside.batches == []
    await turns(1)

    assert beside.batches == [["a", "b"]]


async def test_a_write_that_raises_before_it_begins_fails_its_batch() -> None:
    """The items behind it are written."""
    batches: list[list[str]] = []

    def write(batch: list[str]) -> asyncio.Future[Sequence[str]]:
        batches.append(batch)
        if batch == ["a"]:
            raise ValueError("no message can be made of it")
        return asyncio.ensure_future(asyncio.sleep(0, batch))

    commits = GroupCommit(write, max_items=1)
    first, second = commits.submit("a"), commits.submit("b")
    await turns(5)

    assert isinstance(first.exception(), ValueError)
    assert (second.result(), batches) == ("b", [["a"], ["b"]])


async def test_closing_gives_results_that_have_come_in_the_same_turn() -> None:
    """Those of the last batch too, which closing itself has written."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=10, at_once=2, part=2, look=beside.look)
    futures = [commits.submit(item) for item in "ab"]
    beside.answers.append("AB")
    beside.look()
    futures.append(commits.submit("c"))
    beside.answers.append("C")
    asyncio.get_running_loop().call_soon(beside.look)
    await commits.aclose()

    assert [future.done() and future.result() for future in futures] == list("ABC")


async def test_closing_writes_what_was_submitted_right_before() -> None:
    """The turn of the event loop has not ended yet."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=10)
    future = commits.submit("a")
    beside.answers.append("A")
    asyncio.get_running_loop().call_later(0, beside.look)
    await commits.aclose()

    assert future.result() == "A"


async def test_whoever_asks_to_be_called_is_told_of_results_and_errors(disk: Disk) -> None:
    """Each is called once, in a later turn of the event loop."""
    commits = GroupCommit(disk.write, max_items=1)
    told: list[object] = []
    for item in "ab":
        commits.submit_then(item, told.append)
    assert told == []

    await disk.finish()
    await disk.finish(full := OSError("full"))
    assert told == ["A", full]


async def test_whoever_asks_to_be_called_is_called_in_the_context_of_the_item(disk: Disk) -> None:
    """Log lines of an app that has mounted the receiver have the id of their own request."""
    request = ContextVar[str]("request")
    commits = GroupCommit(disk.write, max_items=10)
    told: list[tuple[str, object]] = []

    async def submit(item: str) -> None:
        request.set(f"request {item}")
        commits.submit_then(item, lambda result: told.append((request.get(), result)))

    await asyncio.gather(*map(submit, "ab"))
    await disk.finish()

    assert told == [("request a", "A"), ("request b", "B")]


async def test_the_next_batch_does_not_wait_until_the_results_of_the_last_are_taken() -> None:
    """To answer its senders is work."""
    beside = Beside()
    commits = GroupCommit(beside.write, max_items=1, at_once=2, part=1, look=beside.look)
    begun: list[int] = []
    for item in "abc":
        commits.submit_then(item, lambda result: begun.append(len(beside.batches)))
    beside.answers.append("A")
    beside.look()
    await turns(5)

    assert begun == [3]


@pytest.mark.parametrize("fault", [ValueError("a bug"), asyncio.CancelledError()], ids=repr)
async def test_an_error_with_one_result_does_not_keep_the_others_from_theirs(
    disk: Disk, fault: BaseException
) -> None:
    """The event loop's handler of exceptions is told of it."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    told: list[object] = []

    def fail(result: object) -> None:
        raise fault

    commits = GroupCommit(disk.write, max_items=10)
    for item, then in (("a", told.append), ("b", fail), ("c", told.append)):
        commits.submit_then(item, then)
    await disk.finish()
    commits.submit_then("d", told.append)
    await disk.finish()

    assert told == ["A", "C", "D"]
    assert [one["exception"] for one in reported] == [fault]


async def test_what_was_not_written_when_the_event_loop_ends_is_told_as_cancelled(disk: Disk) -> None:
    """The batch that is written then, and what has gathered behind it."""
    commits = GroupCommit(disk.write, max_items=1)
    told: list[object] = []
    for item in "ab":
        commits.submit_then(item, told.append)
    await disk.finish(asyncio.CancelledError())

    assert [type(one) for one in told] == [asyncio.CancelledError] * 2
