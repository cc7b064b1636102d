"""Where claimed work waits until it may run: a line for each kind of place, and one for each handler of batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from receiver.core.clock import Clock, Timer
from receiver.core.types import HandlerName
from receiver.routing import Handler
from receiver.routing.policies import Batch, RunsIn
from receiver.worker.runner import Claimed

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Call = tuple[Claimed, ...]
"""What one call of a handler is given: one work item, or a batch of one handler's."""

_AHEAD = 4
_LEAST_AHEAD = 64
"""Work items claimed for each call that may run at one time, and at least, so that one transaction fetches many."""
_BATCHES_AHEAD = 8
_SHARE_OF_BLOCKING = 3
"""Quarters of all places that threads and processes may take together: what hangs there cannot be cancelled."""


@dataclass(slots=True)
class ReadyQueue:
    """Calls that wait for the same kind of place.

    Lines are apart so that plain functions that hang fill up the threads, and nothing else.
    """

    places: int
    capacity: int
    within: "ReadyQueue | None" = None
    """The line of all calls of this kind, whose places this one shares."""
    ready: deque[Call] = field(default_factory=deque)
    running: int = 0
    held: int = 0
    moved_at: datetime = _LONG_AGO
    """When a call last began or ended."""
    stuck: bool = False
    """No place has become free for too long: nothing is claimed for it until one does."""

    @property
    def has_place(self) -> bool:
        """Tell whether another call may begin."""
        return self.running < self.places and (self.within is None or self.within.has_place)

    def count(self, calls: int, now: datetime) -> None:
        """Count calls that begin, or with a minus those that have ended."""
        self.running += calls
        self.moved_at, self.stuck = now, False
        if self.within is not None:
            self.within.count(calls, now)

    @property
    def room(self) -> int:
        """How many more work items may be claimed for this line."""
        return 0 if self.stuck else self.capacity - self.held

    @property
    def free(self) -> int:
        """How many calls would begin at once, were they ready now."""
        free = max(0, self.places - self.running - len(self.ready))
        return free if self.within is None else min(free, self.within.free)


@dataclass(slots=True)
class _Gathering:
    """A batch that is not complete yet."""

    items: list[Claimed]
    timer: Timer


class ReadyQueues:
    """All lines of a worker. `concurrency` calls run at one time, however many lines there are.

    `wake` is called when a batch has become ready by itself, because its time is over.
    """

    def __init__(
        self,
        handlers: Iterable[Handler],
        places: Mapping[RunsIn, int],
        clock: Clock,
        *,
        concurrency: int,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._gathering: dict[HandlerName, _Gathering] = {}
        self._all = ReadyQueue(concurrency, 0)
        blocking = ReadyQueue(max(1, concurrency * _SHARE_OF_BLOCKING // 4), 0, self._all)
        kinds = {
            kind: ReadyQueue(
                count, max(count * _AHEAD, _LEAST_AHEAD), self._all if kind is RunsIn.LOOP else blocking
            )
            for kind, count in places.items()
        }
        self._of: dict[HandlerName, ReadyQueue] = {}
        for handler in handlers:
            line = kinds[handler.runs_in]
            self._of[handler.name] = line if handler.batch is None else _batch_line(handler, handler.batch, line)
        self._turns = deque({id(line): line for line in self._of.values()}.values())

    def __getitem__(self, handler: HandlerName) -> ReadyQueue:
        return self._of[handler]

    def __iter__(self) -> Iterator[ReadyQueue]:
        return iter(self._turns)

    @property
    def free(self) -> int:
        """How many calls would begin at once on any line, were they ready now."""
        return max(0, self._all.free - sum(len(line.ready) for line in self._turns))

    def add(self, claimed: Claimed) -> None:
        """Let a work item wait for its place, or for the others of its batch."""
        handler = claimed.handler
        line = self._of[handler.name]
        line.held += 1
        if handler.batch is not None and claimed.item.attempt == 1:
            self._gather(claimed, handler.batch)
        else:
            line.ready.append((claimed,))

    def begin_next(self) -> Call | None:
        """Take the next call that has a place, each line in its turn; None when there is none."""
        for _ in range(len(self._turns)):
            line = self._turns[0]
            self._turns.rotate(-1)
            if line.ready and line.has_place:
                line.count(1, self._clock.now())
                return line.ready.popleft()
        return None

    def ended(self, call: Call) -> None:
        """Give the place of a call free."""
        self._of[call[0].handler.name].count(-1, self._clock.now())

    def settled(self, handler: HandlerName) -> None:
        """Count one work item less."""
        self._of[handler].held -= 1

    def withdraw(self, unwanted: Callable[[Claimed], bool]) -> list[Claimed]:
        """Take out and return what is unwanted and has not begun."""
        withdrawn: list[Claimed] = []
        for line in self._turns:
            waiting = list(line.ready)
            line.ready.clear()
            for call in waiting:
                withdrawn += [one for one in call if unwanted(one)]
                if kept := tuple(one for one in call if not unwanted(one)):
                    line.ready.append(kept)
        for name, batch in list(self._gathering.items()):
            if unwanted(batch.items[0]):
                batch.timer.cancel()
                withdrawn += self._gathering.pop(name).items
        for one in withdrawn:
            self.settled(one.handler.name)
        return withdrawn

    def withdraw_stuck(self, patience: timedelta) -> list[Claimed]:
        """Take out and return what waits on lines where no call has begun or ended for so long."""
        now = self._clock.now()
        for line in self._turns:
            line.stuck = bool(line.running) and not line.has_place and now - line.moved_at >= patience
        return self.withdraw(lambda one: self._of[one.handler.name].stuck)

    def complete_batches(self) -> None:
        """Let every batch begin with what it has."""
        for name, gathering in list(self._gathering.items()):
            gathering.timer.cancel()
            self._of[name].ready.append(tuple(self._gathering.pop(name).items))

    def _gather(self, claimed: Claimed, batch: Batch) -> None:
        name = claimed.handler.name
        gathering = self._gathering.get(name)
        if gathering is None:
            timer = self._clock.call_later(batch.linger, lambda: self._complete(name))
            gathering = self._gathering[name] = _Gathering([], timer)
        gathering.items.append(claimed)
        if len(gathering.items) == batch.size:
            gathering.timer.cancel()
            self._of[name].ready.append(tuple(self._gathering.pop(name).items))

    def _complete(self, name: HandlerName) -> None:
        self._of[name].ready.append(tuple(self._gathering.pop(name).items))
        self._wake()


def _batch_line(handler: Handler, batch: Batch, kind: ReadyQueue) -> ReadyQueue:
    places = kind.places if handler.concurrency is None else min(handler.concurrency, kind.places)
    return ReadyQueue(places, min(places * 2, _BATCHES_AHEAD) * batch.size, kind)
