"""Another implementation of the service's retries, second by second, that shares nothing with the simulator."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class World:
    """What is given, in whole seconds: creations with their job, outages as (from, to, kind), and the endpoint."""

    created: list[tuple[int, int]]
    outages: Sequence[tuple[int, int, str]]
    latency: int
    erring: bool
    capacity: int | None
    timeout: int
    pauses: list[int]


@dataclass
class Request:
    """One attempt under way."""

    delivery: int
    number: int
    start: int
    fails_at: int | None = None
    failure: str = ""
    finished: int | None = None
    ended: int | None = None
    outcome: str = ""


@dataclass
class Run:
    """The world as it ticks."""

    world: World
    requests: list[Request] = field(default_factory=list)
    queue: list[Request] = field(default_factory=list)
    working: list[tuple[int, Request]] = field(default_factory=list)
    due: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    delivered: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)

    def run(self) -> "Run":
        """Tick until nothing is left to do."""
        for delivery, (second, _) in enumerate(self.world.created, start=1):
            self.due.setdefault(second, []).append((delivery, 1))
        now = 0
        while self.due or self.queue or self.working or any(one.ended is None for one in self.requests):
            self.finish_work(now)
            self.serve(now)
            self.settle(now)
            for delivery, number in sorted(self.due.pop(now, [])):
                self.begin(Request(delivery, number, now))
                self.serve(now)
                self.finish_work(now)
                self.serve(now)
            self.settle(now)
            now += 1
        return self

    def begin(self, request: Request) -> None:
        self.requests.append(request)
        for start, end, kind in self.world.outages:
            if start <= request.start < end:
                request.failure = "refused" if kind == "refuse" else "timeout"
                request.fails_at = request.start + (0 if kind == "refuse" else self.world.timeout)
                if kind == "status" and self.world.latency <= self.world.timeout:
                    request.failure = "status"
                    request.fails_at = request.start + self.world.latency
                return
        self.queue.append(request)

    def serve(self, now: int) -> None:
        places = self.world.capacity if self.world.capacity is not None else 10**9
        while self.queue and len(self.working) < places:
            self.working.append((now + self.world.latency, self.queue.pop(0)))
            self.finish_work(now)

    def finish_work(self, now: int) -> None:
        for end, request in list(self.working):
            if end == now:
                request.finished = now
                self.working.remove((end, request))

    def settle(self, now: int) -> None:
        """Tell the service what it knows by now."""
        for request in self.requests:
            if request.ended is not None:
                continue
            if request.fails_at is not None:
                if request.fails_at == now:
                    self.fail(request, now, request.failure)
            elif request.finished == now:
                if self.world.erring:
                    self.fail(request, now, "status")
                else:
                    request.ended, request.outcome = now, "ok"
                    self.delivered[request.delivery] = (now, request.number)
            elif now - request.start == self.world.timeout:
                self.fail(request, now, "timeout" if self.world.erring else "late")

    def fail(self, request: Request, now: int, outcome: str) -> None:
        request.ended, request.outcome = now, outcome
        if request.number > len(self.world.pauses):
            self.failed.add(request.delivery)
        else:
            again = now + self.world.pauses[request.number - 1]
            self.due.setdefault(again, []).append((request.delivery, request.number + 1))

    # --- what came of it

    def attempts(self) -> list[tuple[int, int, int, int, str]]:
        """Return delivery, number, start, end and outcome of every attempt."""
        return sorted((one.delivery, one.number, one.start, one.ended or 0, one.outcome) for one in self.requests)

    def by_attempt(self) -> list[int]:
        counts = Counter(number for _, number in self.delivered.values())
        return [counts[number] for number in range(1, len(self.world.pauses) + 2)]

    def arrived(self) -> list[int]:
        return [one.delivery for one in self.requests if one.outcome in ("ok", "late")]

    def out_of_order(self) -> int:
        """Count deliveries of which a later one of the same job was delivered before them."""
        jobs = [job for _, job in self.world.created]
        return sum(
            any(
                other > delivery and jobs[other - 1] == jobs[delivery - 1] and when < moment
                for other, (when, _) in self.delivered.items()
            )
            for delivery, (moment, _) in self.delivered.items()
        )

    def busiest_second(self) -> int:
        return max(Counter(one.start for one in self.requests).values(), default=0)
