"""Alerts: what is posted, when, and how often; on a store in memory and a clock that is moved by hand."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from receiver.core.attention import AttentionLimits, Concern, ConcernKind
from receiver.core.clock import SystemClock, VirtualClock, running_beside
from receiver.errors import AlertNotSent, ConfigurationError, StoreError
from receiver.settings import Settings
from receiver.settings.alerting import alert_kinds, alerting, open_poster
from receiver.signals import contracts as signals
from receiver.signals.alerts.posting import AlertPoster, firing, message_of, trial
from receiver.signals.alerts.refusals import RefusalCount
from receiver.signals.alerts.watching import EVERY, LASTS, AlertWatch
from tests.doubles import NOON, appended, delivery, pass_time
from tests.signals.alert_world import DAY, HOUR, MINUTE, SECRET, URL, Chat, World


@pytest.fixture
def world() -> World:
    """A world in which all is well."""
    return World()


async def test_dead_work_is_told_once_together_and_again_when_it_is_well(world: World) -> None:
    """Errors that differ in numbers only are one; how many there are is in the text."""
    assert await world.after(5 * MINUTE) == []
    await world.die("handlers.save", "TimeoutError: row {}", count=40)
    [text] = await world.after(5 * MINUTE)
    assert text.startswith(
        "receiver on m1: 40 dead in handlers.save, of deliveries since 2026-08-04 12:05 UTC: TimeoutError: row "
    )
    assert await world.after(HOUR) == []

    await world.revive("handlers.save")
    well = "receiver on m1: Well again: nothing is dead in handlers.save any more"
    assert await world.after(5 * MINUTE) == [well]
    assert await world.after(2 * DAY) == []

    await world.die("handlers.save", "TimeoutError: row {}")
    [text] = await world.after(5 * MINUTE)
    assert "1 dead in handlers.save" in text


async def test_what_grows_tenfold_is_told_again_and_so_is_another_error(world: World) -> None:
    """But not before ten minutes have passed, if it is only another error."""
    await world.die("save", "TimeoutError")
    assert len(await world.after(2 * MINUTE)) == 1
    await world.die("save", "TimeoutError", count=8)
    assert await world.after(2 * MINUTE) == []
    await world.die("save", "TimeoutError")
    [text] = await world.after(2 * MINUTE)
    assert "10 dead in save" in text

    await world.die("save", "KeyError: 'x'")
    assert await world.after(2 * MINUTE) == []
    [text] = await world.after(10 * MINUTE)
    assert "10 dead in save" in text
    assert "(and 1 with 1 other error)" in text


async def test_what_lasts_is_told_again_each_day(world: World) -> None:
    """Somebody may have missed it."""
    await world.die("save", "TimeoutError")
    assert len(await world.after(HOUR)) == 1
    assert len(await world.after(DAY)) == 1


async def test_all_that_is_new_in_one_check_is_one_message(world: World) -> None:
    """With a line for each, and the same as fields."""
    world.watches = [world.watch(kinds=frozenset({ConcernKind.DEAD, ConcernKind.QUARANTINED}))]
    await world.die("one", "TimeoutError")
    await world.die("two", "KeyError")
    await world.quarantine("conflict", count=3)
    await world.after(MINUTE)
    assert not world.chat.posts
    world.clock.advance(EVERY)
    await world.watches[0].check()

    [post] = world.chat.posts
    content = json.loads(post.content)
    assert content["text"].splitlines() == [
        "receiver on m1:",
        "• 1 dead in one, of deliveries since 2026-08-04 12:00 UTC: TimeoutError",
        "• 1 dead in two, of deliveries since 2026-08-04 12:00 UTC: KeyError",
        "• 3 requests in quarantine in the last 24 hours: conflict",
    ]
    assert content["machine"] == "m1"
    assert content["sent_at"].startswith("2026-08-04T12:01:30")
    assert content["alerts"][2] == {
        "kind": "quarantined",
        "state": "firing",
        "subject": "",
        "count": 3,
        "text": "3 requests in quarantine in the last 24 hours: conflict",
        "reasons": ["conflict"],
    }


async def test_a_backlog_and_a_silence_are_told_and_end(world: World) -> None:
    """By the limits that the console has too."""
    limits = AttentionLimits(backlog_older_than=10 * MINUTE, no_delivery_for=HOUR)
    world.watches = [world.watch(kinds=frozenset({ConcernKind.BACKLOG, ConcernKind.NO_DELIVERY}), limits=limits)]
    await appended(world.store, delivery("k", received_at=NOON))
    assert await world.after(10 * MINUTE) == []
    [text] = await world.after(2 * MINUTE)
    assert text == "receiver on m1: The oldest work has been due for 11m. Is a worker running?"

    [text] = await world.after(HOUR)
    assert (
        text.startswith("receiver on m1: No delivery has come for 61m") or "No delivery has come for 1h1m" in text
    )
    await appended(world.store, delivery("k2", received_at=world.clock.now()))
    assert await world.after(5 * MINUTE) == ["receiver on m1: Well again: deliveries come again"]


async def test_many_processes_tell_it_once(world: World) -> None:
    """Also when the one that has the duty ends, and when another one starts later."""
    world.watches += [world.watch(), world.watch()]
    await world.die("save", "TimeoutError")
    assert len(await world.after(5 * MINUTE)) == 1

    del world.watches[0]
    world.watches.append(world.watch())
    assert await world.after(30 * MINUTE) == []
    await world.revive("save")
    assert len(await world.after(5 * MINUTE)) == 1


async def test_another_process_tells_what_one_could_not(world: World) -> None:
    """It had claimed the message, and ended before it was posted."""
    world.chat.status = 500
    await world.die("save", "TimeoutError")
    assert len(await world.after(2 * MINUTE)) == 2
    world.watches = [world.watch()]
    world.chat.status = 200
    assert len(await world.after(HOUR)) == 1


async def test_a_message_that_fails_is_posted_again_with_its_id(world: World, caplog: Any) -> None:
    """With longer and longer pauses, and each time with a signature for its time."""
    world.chat.status = 503
    await world.die("save", "TimeoutError")
    end = world.clock.now() + 10 * MINUTE
    while world.clock.now() < end:
        world.clock.advance(EVERY)
        await world.watches[0].check()

    posts = world.chat.posts
    assert len(posts) == 5
    assert len({one.headers["webhook-id"] for one in posts}) == 1
    assert len({one.content for one in posts}) == 1
    assert len({one.headers["webhook-timestamp"] for one in posts}) == 5
    assert "alert_not_sent" in caplog.text
    assert "secret-part" not in caplog.text
    world.chat.status = 200
    assert len(await world.after(20 * MINUTE)) == 6


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("HTTPS_PROXY", "odd://user:word@proxy.example.com", "ValueError"),
        ("SSL_CERT_FILE", "/no/file", "FileNotFoundError"),
    ],
)
async def test_a_wrong_environment_is_told_like_a_failure_of_the_network(
    variable: str, value: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library reads proxies and certificates from there, and raises other errors for them."""
    monkeypatch.setenv(variable, value)
    poster = AlertPoster(URL, secret=None, clock=VirtualClock(NOON))
    with pytest.raises(AlertNotSent, match=rf"^chat.example.com cannot be reached \({error}\)$"):
        await poster.post(message_of([trial("x")], machine="m1", now=NOON))


async def test_a_redirect_is_no_success_and_is_not_followed() -> None:
    """It could lead into the operator's own network."""
    chat = Chat()
    chat.status = 302
    poster = AlertPoster(URL, secret=None, clock=VirtualClock(NOON), transport=chat.transport)
    with pytest.raises(AlertNotSent) as raised:
        await poster.post(message_of([trial("x")], machine="m1", now=NOON))

    assert str(raised.value) == "chat.example.com answered 302: check RECEIVER_ALERT_URL"
    [post] = chat.posts
    assert "webhook-signature" not in post.headers


async def test_what_cannot_be_reached_is_told_without_the_url() -> None:
    """The library's own text may have it."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no {request.url}")

    poster = AlertPoster(URL, secret=None, clock=VirtualClock(NOON), transport=httpx.MockTransport(fail))
    with pytest.raises(AlertNotSent, match=r"^chat.example.com cannot be reached \(ConnectError\)$") as raised:
        await poster.post(message_of([trial("x")], machine="m1", now=NOON))
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_")])
async def test_the_library_of_standard_webhooks_takes_the_signature(secret: str) -> None:
    """And refuses another body."""
    chat, clock = Chat(), SystemClock()
    poster = AlertPoster(URL, secret=secret, clock=clock, transport=chat.transport)
    await poster.post(message_of([trial("chat.example.com")], machine="m1", now=clock.now()))

    [post] = chat.posts
    headers = dict(post.headers)
    assert Webhook(SECRET).verify(post.content, headers)["machine"] == "m1"
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(post.content + b" ", headers)


def test_nothing_in_a_text_is_a_mention_or_a_link() -> None:
    """The error of a handler may quote a page; fields for programs have it as it is."""
    concern = Concern(ConcernKind.DEAD, "bad", "1 dead: <!channel> & @here", subject="save")
    content = json.loads(message_of([*firing([concern]).values()], machine="m1", now=NOON).body)
    assert content["text"] == "receiver on m1: 1 dead: &lt;!channel&gt; &amp; @\u200bhere"
    assert content["alerts"][0]["text"] == "1 dead: <!channel> & @here"


@pytest.mark.parametrize("others", [0, 1])
async def test_refused_requests_are_told_by_the_process_that_refuses(world: World, others: int) -> None:
    """More than so many in ten minutes, whoever reads the store; it forgets them after that time."""
    count = RefusalCount()
    world.watches = [world.watch() for _ in range(others)] + [
        world.watch(kinds=frozenset({ConcernKind.REFUSED}), local=lambda now: count.concern(now, more_than=100))
    ]
    with count.counting():
        for number in range(101):
            reason = "unauthenticated" if number else "too_large"
            refused = signals.DeliveryRefused(at=world.clock.now(), status=401, reason=reason, detail="")
            signals.delivery_refused.emit(refused)
    [text] = await world.after(5 * MINUTE)
    assert text == "receiver on m1: 101 requests were refused in 10m: 100 unauthenticated, 1 too_large"
    assert await world.after(20 * MINUTE) == ["receiver on m1: Well again: few or no requests are refused now"]
    assert not signals.delivery_refused.receivers


def test_settings_say_what_is_told() -> None:
    """Without a URL there is nobody to tell."""
    settings = Settings(
        _env_file=None, alert_url=URL, alert_secret=SECRET, alert_on_dead=False, alert_refused_more_than=0
    )
    assert alert_kinds(settings) == {ConcernKind.QUARANTINED, ConcernKind.BACKLOG, ConcernKind.REFUSED}
    assert open_poster(settings, SystemClock()).host == "chat.example.com"
    for shown in (repr(settings), settings.model_dump_json()):
        assert "secret-part" not in shown
        assert SECRET not in shown
    with pytest.raises(ConfigurationError, match="no RECEIVER_ALERT_URL is set"):
        open_poster(Settings(_env_file=None), SystemClock())


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"alert_url": "http://chat.example.com/x-secret"}, "must begin with https://"),
        ({"alert_url": "https://user:x-secret@chat.example.com"}, "must not contain a user"),
        ({"alert_url": "ftp://10.0.0.1/x-secret"}, "must begin with https://"),
        ({"alert_url": "https://[x-secret"}, "not a URL"),
        ({"alert_url": URL, "alert_secret": "x-secret"}, "must be base64"),
        ({"alert_secret": SECRET}, "RECEIVER_ALERT_SECRET needs RECEIVER_ALERT_URL"),
    ],
)
def test_wrong_settings_are_refused_and_not_shown(wrong: Mapping[str, str], reason: str) -> None:
    """The URL and the secret are secrets."""
    with pytest.raises(ConfigurationError, match=reason) as raised:
        Settings(_env_file=None, **wrong)
    assert "x-secret" not in str(raised.value)


async def test_a_deployment_with_a_url_posts(world: World) -> None:
    """The assembly of a web process: it opens what it needs, and counts what it refuses."""
    settings = Settings(_env_file=None, alert_url=URL, alert_refused_more_than=0)
    transport = world.chat.transport
    async with alerting(settings, world.store, world.clock, transport=transport):
        signals.delivery_refused.emit(
            signals.DeliveryRefused(at=world.clock.now(), status=401, reason="unauthenticated", detail="")
        )
        await world.quarantine("malformed")
        for _ in range(6):
            await pass_time(world.clock, EVERY)
    [text] = world.chat.taken()
    assert "1 request in quarantine in the last 24 hours: malformed" in text
    assert "1 requests were refused" not in text
    assert "1 request was refused in 10m: 1 unauthenticated" in text
    assert not signals.delivery_refused.receivers


async def test_without_a_url_nothing_watches(world: World) -> None:
    """Nobody would be told."""
    async with alerting(Settings(_env_file=None), world.store, world.clock, transport=world.chat.transport):
        await world.quarantine("malformed")
        await pass_time(world.clock, HOUR)
    assert world.chat.posts == []


async def test_what_nobody_wants_to_hear_any_more_is_not_well_again(world: World) -> None:
    """The setting was switched off while work was dead."""
    await world.die("save", "TimeoutError")
    assert len(await world.after(5 * MINUTE)) == 1
    world.watches = [world.watch(kinds=frozenset({ConcernKind.QUARANTINED}))]
    assert await world.after(10 * MINUTE) == []


async def test_a_process_that_ends_leaves_the_duty_to_the_next(world: World) -> None:
    """Otherwise nothing would be told for two minutes after each deployment."""
    async with running_beside(world.watches[0].run()):
        await pass_time(world.clock, EVERY)
    await world.die("save", "TimeoutError")
    world.watches = [world.watch()]
    assert len(await world.after(LASTS + EVERY)) == 1


async def test_a_store_that_is_away_is_logged_and_asked_again(world: World, caplog: Any) -> None:
    """As is a bug of ours."""
    errors: list[Exception] = [StoreError("locked"), ValueError("a bug")]

    @asynccontextmanager
    async def reports() -> AsyncIterator[Any]:
        if errors:
            raise errors.pop(0)
        yield world.store

    poster = AlertPoster(URL, secret=None, clock=world.clock, transport=world.chat.transport)
    watch = AlertWatch(
        reports, world.store, world.clock, poster, kinds=frozenset({ConcernKind.DEAD}), limits=AttentionLimits()
    )
    await world.die("save", "TimeoutError")
    async with running_beside(watch.run()):
        for _ in range(8):
            await pass_time(world.clock, EVERY)
    assert len(world.chat.taken()) == 1
    assert [one.message for one in caplog.records if "alerts_not_checked" in one.getMessage()]
