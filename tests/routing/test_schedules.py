"""Schedules of handlers: their moments, and the mistakes that registration refuses."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver import Context, HandlerError, Router
from receiver.events import CrawlPage, Event, ScheduledRun
from receiver.routing.policies import RunsIn
from receiver.routing.schedules import CronTimes, IntervalTimes

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def run(event: ScheduledRun) -> None: ...


def moments(times: CronTimes, begin: datetime, count: int) -> list[str]:
    """Return the next runs after a moment, on the clocks of their zone."""
    found = [begin]
    while len(found) <= count:
        found.append(times.next_after(found[-1]))
    return [f"{one:%d %H:%M}" for one in found[1:]]


def test_an_interval_is_counted_the_same_by_every_worker() -> None:
    """From the beginning of 1970, whenever the worker started."""
    times = IntervalTimes(5 * MINUTE)
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)

    assert times.next_after(noon - MINUTE) == noon
    assert times.next_after(noon) == noon + 5 * MINUTE
    assert times.last_until(noon + 9 * MINUTE, since=noon - HOUR) == noon + 5 * MINUTE
    assert times.last_until(noon, since=noon) == noon


def test_a_time_in_a_skipped_hour_runs_once_after_it() -> None:
    """On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, which is 01:00 in UTC."""
    times = CronTimes("30 2 * * *", "Europe/Berlin")

    assert moments(times, datetime(2026, 3, 28, tzinfo=UTC), 3) == ["28 01:30", "29 01:00", "30 00:30"]


def test_a_time_in_a_doubled_hour_runs_once() -> None:
    """On 25 October 2026 it is 02:30 twice in Berlin, at 00:30 and 01:30 in UTC."""
    times = CronTimes("30 2 * * *", "Europe/Berlin")

    assert moments(times, datetime(2026, 10, 24, 12, tzinfo=UTC), 2) == ["25 00:30", "26 01:30"]
    since = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert times.last_until(datetime(2026, 10, 25, 23, tzinfo=UTC), since=since) == since


def test_every_hour_is_every_hour_when_clocks_change() -> None:
    times = CronTimes("0 * * * *", "Europe/Berlin")

    for begin in (datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 10, 24, 22, tzinfo=UTC)):
        runs = moments(times, begin, 6)
        assert runs == [f"{begin + number * HOUR:%d %H:%M}" for number in range(1, 7)]


def test_a_leap_day_is_found_however_far() -> None:
    """2100 has none."""
    assert moments(CronTimes("0 0 29 2 *", "UTC"), datetime(2096, 3, 1, tzinfo=UTC), 1) == ["29 00:00"]


@pytest.mark.parametrize("given", ["5 minutes", "5m", 300, 300.0, 5 * MINUTE, "5 min", "300 seconds"])
def test_a_handler_is_registered_with_its_schedule(given: Any) -> None:
    """The function is returned unchanged, and its retries fit between two runs."""
    router = Router()

    assert router.every(given, timeout=9, name="job")(run) is run

    (handler,) = router
    assert handler.times == IntervalTimes(5 * MINUTE)
    assert (handler.timeout, handler.runs_in, handler.schedule.attempts) == (timedelta(seconds=9), RunsIn.THREAD, 4)


def test_retries_are_as_many_as_fit_unless_the_options_say_more() -> None:
    def attempts(*given: Any, **options: Any) -> int:
        router = Router()
        router.every(*given, **options)(run)
        (handler,) = router
        return handler.schedule.attempts

    assert attempts("1 day") == 8
    assert attempts(cron="0 9 * * 1") == 8
    assert attempts(cron="0 9,10 * * *") == 6
    assert attempts("2 seconds") == 2
    assert attempts("1 second") == 1
    assert attempts("1 second", attempts=3) == 3


def test_a_handler_may_take_a_context_and_any_event() -> None:
    router = Router()

    @router.every(cron=" 0  9 * * 1 ", timezone="Europe/Berlin")
    async def report(event: Event, ctx: Context) -> None: ...

    (handler,) = router
    assert handler.times == CronTimes("0 9 * * 1", "Europe/Berlin")
    assert (handler.takes_context, handler.runs_in) == (True, RunsIn.LOOP)


WRONG: list[tuple[Callable[[Router], Any], str]] = [
    (lambda router: router.every(), "give every(...) an interval or cron="),
    (lambda router: router.every("1m", cron="* * * * *"), "give every(...) an interval or cron="),
    (lambda router: router.every("soon"), "takes a text such as '5 minutes' or '5m'"),
    (lambda router: router.every(0), "takes whole seconds, from 1s to 366d, not 0s"),
    (lambda router: router.every(0.5), "takes whole seconds, from 1s to 366d, not 500ms"),
    (lambda router: router.every("400 days"), "not 400d"),
    (lambda router: router.every("1h", timezone="UTC"), "timezone= is for cron="),
    (lambda router: router.every(cron=5), "cron= takes a text such as '0 9 * * 1', not 5"),  # type: ignore[arg-type]
    (lambda router: router.every(cron="0 9 * *"), "has five fields: minute, hour, day, month and weekday"),
    (lambda router: router.every(cron="0 9 * * MON"), "cron='0 9 * * MON' is not understood: weekdays are named"),
    (lambda router: router.every(cron="0 9 1 * 1"), "names days of the month and weekdays: write * for one"),
    (lambda router: router.every(cron="5/15 * * * *"), "has a step without a range"),
    (lambda router: router.every(cron="0 0 31 2 *"), "names a day that no year has"),
    (lambda router: router.every(cron="0 9 * * 1", timezone="Berlin"), "such as 'Europe/Berlin', not 'Berlin'"),
    (lambda router: router.every("1h", pauses=[-1]), "pauses= takes from 0s to"),
    (lambda router: router.on(ScheduledRun), "register the function with its schedule, as in every("),
    (lambda router: router.later(CrawlPage, ordered=True), "ordered= does not go with later(...)"),
    (lambda router: router.later(), "say which events it wants"),
]


@pytest.mark.parametrize(("register", "message"), WRONG)
def test_a_mistake_is_refused_at_registration(register: Callable[[Router], Any], message: str) -> None:
    """The error names the file and the line of the function."""
    with pytest.raises(HandlerError, match=re.escape(message)) as refused:
        register(Router())(run)

    assert re.match(r".*test_schedules\.py:\d+: tests\.routing\.test_schedules\.run", str(refused.value))


def test_options_of_events_are_no_options_of_schedules() -> None:
    with pytest.raises(TypeError, match=r"test_schedules.*: a handler has no option batch="):
        Router().every("1h", batch=5)(run)  # type: ignore[call-arg]


def test_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(HandlerError, match=r'write it in parentheses, as in @router\.every\("5 minutes"\)'):
        Router().every(run)  # type: ignore[arg-type]
    with pytest.raises(HandlerError, match=r"as in @router\.later\(CrawlStarted\)"):
        Router().later(run)  # type: ignore[arg-type]


def test_a_function_for_another_event_is_refused() -> None:
    def page(event: CrawlPage) -> None: ...

    with pytest.raises(HandlerError, match="is registered for ScheduledRun and takes"):
        Router().every("1h")(page)


def test_the_end_of_a_job_does_not_wait_for_what_is_done_later() -> None:
    router = Router()
    router.on(CrawlPage, name="page")(lambda event: None)
    router.later(CrawlPage, name="later")(lambda event: None)

    assert router.page_handlers("crawl.completed") == ("page",)


def test_a_name_stands_for_one_handler() -> None:
    router = Router()
    router.on(CrawlPage, name="job")(lambda event: None)

    with pytest.raises(HandlerError, match="two handlers are named 'job'"):
        router.every("1h", name="job")(run)
