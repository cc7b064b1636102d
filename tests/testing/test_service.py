"""The service in a test: schedule, time-out and outages, compared with the model and with a real server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from receiver import Router
from receiver.app import Receiver
from receiver.cli.common.store import open_reports
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.units import MICROSECOND
from receiver.errors import ConfigurationError
from receiver.service.schedule import State
from receiver.service.sender import Sender
from receiver.service.simulator.run import simulate
from receiver.service.simulator.scenario import ArrivalPattern, Endpoint, Latency, Outage, OutageKind, Scenario
from receiver.testing import (
    RunningReceiver,
    ScheduledSender,
    SentAttempt,
    SteppedClock,
    job_story,
    open_receiver,
    open_sender,
    sample,
    settings_for_test,
)
from receiver.web.listening import bind
from receiver.web.server import make_server
from tests.doubles import soon

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def receiver_router() -> Router:
    """No handlers: these tests are about the sender."""
    return Router()


class Slow:
    """An ASGI app that answers with this status after this long on the clock."""

    def __init__(self, clock: SteppedClock, latency: timedelta = timedelta(0), status: int = 200) -> None:
        self.clock, self.latency, self.status = clock, latency, status
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.calls += 1
        await self.clock.sleep(self.latency)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def seconds(attempts: list[SentAttempt]) -> list[tuple[float, float]]:
    """Return when attempts started and ended, from the start of the first."""
    first = attempts[0].started_at
    return [((one.started_at - first) / SECOND, (one.ended_at - first) / SECOND) for one in attempts]


async def test_a_delivery_is_stored_and_acknowledged(
    receiver_sender: ScheduledSender, receiver_app: RunningReceiver, receiver_clock: SteppedClock
) -> None:
    """Signed, at the time of the clock, with its exact bytes."""
    page = sample("crawl.page")

    sent = await receiver_sender.send(page)

    [attempt] = sent.attempts
    assert (sent.state, attempt.result.status, attempt.result.answer) == (State.DELIVERED, 200, "accepted")
    key = page.event.webhook_id
    assert attempt.result.key == key
    [stored] = [one async for one in receiver_app.reports.iter_deliveries(DeliveryFilter())]
    assert (stored.delivery.body, stored.delivery.received_at) == (page.body, receiver_clock.now())
    assert dict(stored.delivery.headers)["x-firecrawl-signature"] == "***"


async def test_an_immediate_failure_is_retried_after_1_5_and_15_minutes(
    receiver_sender: ScheduledSender, receiver_clock: SteppedClock
) -> None:
    """At 0, 1:00, 6:00 and 21:00. Then the delivery has failed for good."""
    with receiver_sender.outage():
        sent = await receiver_sender.send(sample("crawl.page"))
        await receiver_clock.advance(minutes=30)

    assert seconds(sent.attempts) == [(0, 0), (60, 60), (360, 360), (1260, 1260)]
    assert [one.state for one in sent.attempts] == [State.RETRY_1, State.RETRY_2, State.RETRY_3, State.FAILED]
    assert sent.state is State.FAILED
    assert [one.number for one in receiver_sender.attempts] == [1, 2, 3, 4]


async def test_a_hanging_attempt_ends_after_ten_seconds(
    receiver_sender: ScheduledSender, receiver_clock: SteppedClock
) -> None:
    """At 0, 1:10, 6:20 and 21:30. The last attempt ends at 21:40."""
    with receiver_sender.outage(OutageKind.HANG):
        sent = await receiver_sender.send(sample("crawl.page"))
        assert sent.attempts == []
        await receiver_clock.advance(minutes=30)

    assert seconds(sent.attempts) == [(0, 10), (70, 80), (380, 390), (1290, 1300)]
    assert sent.state is State.FAILED


async def test_a_retry_succeeds_after_an_outage(
    receiver_sender: ScheduledSender, receiver_clock: SteppedClock
) -> None:
    """Then there is no further attempt."""
    with receiver_sender.outage(OutageKind.STATUS, status=502):
        sent = await receiver_sender.send(sample("crawl.page"))
    await receiver_clock.advance(seconds=59)
    assert (sent.state, len(sent.attempts)) == (State.RETRY_1, 1)

    await receiver_clock.advance(seconds=1)
    assert (sent.state, len(sent.attempts)) == (State.DELIVERED, 2)
    assert [one.result.status for one in sent.attempts] == [502, 200]

    await receiver_clock.advance(minutes=30)
    assert len(sent.attempts) == 2


@pytest.mark.parametrize(
    ("latency", "state"), [(9.999, State.DELIVERED), (10.001, State.RETRY_1), (3600, State.RETRY_1)]
)
async def test_an_answer_later_than_the_time_out_counts_as_failed(
    receiver_clock: SteppedClock, latency: float, state: State
) -> None:
    """A 2xx too."""
    app = Slow(receiver_clock, latency * SECOND)
    async with open_sender(app, receiver_clock) as sender:
        sent = await sender.send(sample("crawl.page"))
        assert (app.calls, sent.state) == (1, State.ATTEMPT)
        await receiver_clock.advance(seconds=15)

    assert sent.state is state


@pytest.mark.parametrize(("status", "state"), [(204, State.DELIVERED), (301, State.RETRY_1), (401, State.RETRY_1)])
async def test_only_a_2xx_is_a_success(receiver_clock: SteppedClock, status: int, state: State) -> None:
    """Redirects are not followed."""
    async with open_sender(Slow(receiver_clock, status=status), receiver_clock) as sender:
        assert (await sender.send(sample("crawl.page"))).state is state


async def test_an_app_that_raises_is_a_failure(receiver_clock: SteppedClock) -> None:
    """A server would answer 500."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a fault")

    async with open_sender(broken, receiver_clock) as sender:
        sent = await sender.send(sample("crawl.page"))

    assert (sent.state, sent.attempts[0].result.status) == (State.RETRY_1, 500)


async def test_a_forged_delivery_is_refused(receiver_app: RunningReceiver, receiver_clock: SteppedClock) -> None:
    """The service retries it, as it does with a wrong secret."""
    async with open_sender(receiver_app, receiver_clock, secret="not-the-secret") as sender:
        sent = await sender.send(sample("crawl.page"))
        await receiver_clock.advance(minutes=30)

    assert [one.result.status for one in sent.attempts] == [401] * 4


async def test_a_late_answer_makes_the_retry_a_duplicate(
    receiver_app: RunningReceiver, receiver_clock: SteppedClock
) -> None:
    """The first attempt was stored, and the service does not know that."""
    delays = [11 * SECOND, timedelta(0)]

    async def slow_way_back(scope: Scope, receive: Receive, send: Send) -> None:
        async def keep(message: Message) -> None:
            answer.append(message)

        answer: list[Message] = []
        await receiver_app(scope, receive, keep)
        await receiver_clock.sleep(delays.pop(0))
        for message in answer:
            await send(message)

    [secret] = receiver_app.settings.plain_secrets()
    async with open_sender(slow_way_back, receiver_clock, secret=secret) as sender:
        sent = await sender.send(sample("crawl.page"))
        await receiver_clock.advance(minutes=2)

    assert [one.result.answer for one in sent.attempts] == ["no answer", "duplicate"]
    assert sent.state is State.DELIVERED


def test_the_settings_of_a_test_read_no_environment_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither values nor mistakes: what a developer has set up must not change a test."""
    monkeypatch.chdir(tmp_path)
    expected = dict(settings_for_test(tmp_path, max_body="1MB"))
    Path(".env").write_text("RECEIVER_LEASE=5s\nRECEIVER_NONE=1\n")
    for name, value in (("MAX_BODY", "2MB"), ("SEARCH", "true"), ("PROT", "1"), ("ALERT_SECRET", "x")):
        monkeypatch.setenv(f"RECEIVER_{name}", value)
    monkeypatch.setenv("PORT", "9")

    assert dict(settings_for_test(tmp_path, max_body="1MB")) == expected
    with pytest.raises(ConfigurationError, match="unknown setting max_bdy in the arguments"):
        settings_for_test(tmp_path, max_bdy="1MB")


async def test_a_static_header_is_sent_when_that_is_configured(
    tmp_path: Path, receiver_clock: SteppedClock
) -> None:
    """By `open_sender` and by the fixture."""
    settings = settings_for_test(tmp_path, secrets=(), token_header="X-Token", tokens=("one",))
    async with open_receiver(Router(), settings, receiver_clock) as app:
        async with open_sender(app, receiver_clock, token=("X-Token", "one")) as sender:
            assert (await sender.send(sample("crawl.page"))).state is State.DELIVERED
        async with open_sender(app, receiver_clock, token=("X-Token", "two")) as sender:
            assert (await sender.send(sample("crawl.page"))).state is State.RETRY_1


def jumping(frozen: FrozenDateTimeFactory) -> Iterator[None]:
    """Move frozen time in its own ways, past several retries at a time."""
    frozen.tick(timedelta(seconds=75))
    yield
    frozen.move_to(NOON + timedelta(minutes=30))
    yield


async def test_frozen_time_makes_the_same_attempts(
    receiver_sender: ScheduledSender, receiver_clock: SteppedClock
) -> None:
    """`tick` and `move_to` may skip several retries; each is made at its own moment."""
    with freeze_time(NOON, real_asyncio=True) as frozen, receiver_sender.outage(OutageKind.HANG):
        sent = await receiver_sender.send(sample("crawl.page"))
        assert isinstance(frozen, FrozenDateTimeFactory)
        for _ in jumping(frozen):
            await receiver_clock.settle()

    assert sent.attempts[0].started_at == NOON
    assert seconds(sent.attempts) == [(0, 10), (70, 80), (380, 390), (1290, 1300)]


class Modelled:
    """An ASGI app that behaves as the endpoint of a scenario does."""

    def __init__(self, scenario: Scenario, clock: SteppedClock) -> None:
        self._scenario = scenario
        self._clock = clock
        self._start = clock.now()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or never."""
        at, latency = self._clock.now() - self._start, self._scenario.endpoint.latency.p50
        kind = next((one.kind for one in self._scenario.outages if one.start <= at < one.end), None)
        if kind is OutageKind.REFUSE:
            latency = timedelta(0)
        elif kind is OutageKind.HANG:
            latency = HOUR
        await Slow(self._clock, latency, 200 if kind is None else 503)(scope, receive, send)


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 1500), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 600), st.sampled_from(OutageKind)), max_size=4),
    st.sampled_from([0, 200, 9_000, 11_000]),
)
def test_the_attempts_are_those_of_the_model(
    created: list[int], outages: list[tuple[int, int, OutageKind]], latency_ms: int
) -> None:
    """For any outages and latency: the same starts, ends and states that `receiver simulate` has."""
    scenario = Scenario(
        arrivals=ArrivalPattern(at=tuple(f"{second}s" for second in created)),
        endpoint=Endpoint(latency=Latency(p50=f"{latency_ms}ms")),
        outages=tuple(
            Outage(start=f"{start}s", end=f"{start + length}s", kind=kind) for start, length, kind in outages
        ),
    )

    assert sorted(asyncio.run(attempts_in_process(scenario, sorted(created)))) == sorted(
        (one.delivery, one.attempt, one.started_us, one.ended_us, one.state) for one in simulate(scenario)
    )


async def attempts_in_process(scenario: Scenario, created: list[int]) -> list[tuple[int, int, int, int, State]]:
    """Return the attempts at deliveries that are sent at these seconds."""
    clock = SteppedClock()
    start = clock.now()
    async with open_sender(Modelled(scenario, clock), clock) as sender:
        for number, second in enumerate(created):
            await clock.advance(start + second * SECOND - clock.now())
            await sender.send(sample("crawl.page", seed=number))
        await clock.advance(hours=1)
    return [
        (
            one.delivery,
            one.number,
            (one.started_at - start) // MICROSECOND,
            (one.ended_at - start) // MICROSECOND,
            one.state,
        )
        for one in sender.attempts
    ]


@asynccontextmanager
async def over_the_network(app: Receiver, secret: str) -> AsyncIterator[Sender]:
    """Serve an app as `receiver serve` does, and send to it over a real connection."""
    listening = bind("127.0.0.1", 0)
    server = make_server(app, read_timeout=4 * SECOND, shutdown=SECOND)
    async with app.lifespan():
        serving = asyncio.create_task(server.serve([listening]))
        try:
            async with Sender(f"http://127.0.0.1:{listening.getsockname()[1]}/webhooks", secret=secret) as sender:
                yield sender
        finally:
            server.should_exit = True
            await soon(serving)


async def test_in_process_and_over_the_network_are_the_same(
    receiver_sender: ScheduledSender, receiver_app: RunningReceiver, tmp_path: Path
) -> None:
    """The same bodies get the same answers from the real server, and the two stores have the same in them."""
    bodies = [one.body for one in job_story("crawl", pages=20, order="shuffled")]
    bodies += [bodies[0], b"{}", b'{"type": "new.kind", "odd": "\\ud800"}', b"x" * 2_000]
    other = settings_for_test(tmp_path, store=f"sqlite:///{tmp_path}/other.db", max_body=1_000_000)
    [secret] = other.plain_secrets()

    in_process = [(await receiver_sender.send(body)).attempts[0].result for body in bodies]
    async with over_the_network(Receiver(other), secret) as network:
        real = [await network.send(body) for body in bodies]

    assert [(one.status, one.answer, one.key) for one in in_process] == [
        (one.status, one.answer, one.key) for one in real
    ]
    assert {one.answer for one in real} == {"accepted", "duplicate", "malformed"}
    async with open_reports(other) as reports:
        assert await kept(reports) == await kept(receiver_app.reports)


async def kept(reports: Reports) -> list[tuple[object, ...]]:
    """Return what is stored, but for the times of arrival and the headers that a connection adds."""
    return [
        (one.seq, one.duplicates, one.delivery.key, one.delivery.type, one.delivery.job_id, one.delivery.body)
        async for one in reports.iter_deliveries(DeliveryFilter())
    ]


async def test_running_attempts_are_cancelled_at_the_end(receiver_clock: SteppedClock) -> None:
    """A test ends even if an answer never comes."""
    async with open_sender(Slow(receiver_clock, HOUR), receiver_clock) as sender:
        sent = await sender.send(sample("crawl.page"))

    assert sent.attempts == []
    assert repr(sent) == "Sent(1, attempt, attempts=0)"
