"""Bodies that make and change monitors."""

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import CallRefused
from receiver.emulator.wire.monitors import (
    MonitorPlan,
    PagesTarget,
    QueriesTarget,
    SiteTarget,
    read_monitor,
    read_monitor_changes,
)
from tests.cases import for_each
from tests.doubles import NOON
from tests.emulator.wire.cases import URL, WRONG_PAGE_OPTIONS, WRONG_TYPES, paths_of, refused

KNOWN = "019f2c10-0000-7000-8000-000000000001"
PAGES = {"type": "scrape", "urls": [URL]}
SITE = {"type": "crawl", "url": "https://example.com"}
QUERIES = {"type": "search", "queries": ["price of tea"]}
BODY: dict[str, Any] = {"name": "Prices", "schedule": {"cron": "0 * * * *"}, "targets": [PAGES]}


def id_of(number: int) -> str:
    return f"019f2c10-0000-7000-9000-{number:012}"


def ids() -> Any:
    numbers = itertools.count(1)
    return lambda: id_of(next(numbers))


def read(**body: Any) -> MonitorPlan:
    return read_monitor({**BODY, **body}, new_id=ids(), now=NOON)


def change(current: dict[str, Any], nulls: tuple[str, ...] = (), **body: Any) -> MonitorPlan:
    return read_monitor_changes(body, current, new_id=ids(), now=NOON, nulls=nulls)


def test_a_monitor_has_its_defaults() -> None:
    """UTC, 30 days, no judge without a goal; its targets get ids."""
    plan = read()

    assert (plan.cron, plan.timezone, plan.retention_days, plan.judge_enabled) == ("0 * * * *", "UTC", 30, False)
    assert (plan.webhook, plan.goal, plan.notification, plan.status) == (None, None, {}, "active")
    (target,) = plan.targets
    assert isinstance(target, PagesTarget)
    assert (target.id, target.urls, target.scrape.max_age) == (id_of(1), (URL,), 0)
    assert plan.body == {
        "name": "Prices",
        "status": "active",
        "schedule": {"cron": "0 * * * *", "timezone": "UTC"},
        "targets": [{**PAGES, "id": id_of(1)}],
        "webhook": None,
        "notification": {},
        "goal": None,
        "judgeEnabled": False,
        "retentionDays": 30,
    }


def test_a_monitor_reads_every_field() -> None:
    """Targets of all kinds; a schedule in words becomes a cron expression."""
    crawl_options = {"limit": 9, "includePaths": ["/blog"], "maxDiscoveryDepth": 2}
    plan = read(
        schedule={"text": "daily at 9:30 pm", "timezone": "Europe/Berlin"},
        targets=[
            {**PAGES, "id": KNOWN, "scrapeOptions": {"formats": [{"type": "changeTracking", "modes": ["json"]}]}},
            {**SITE, "crawlOptions": crawl_options, "scrapeOptions": {"onlyMainContent": False, "maxAge": 5}},
            {**QUERIES, "searchWindow": "24h", "maxResults": 3, "includeDomains": ["example.com"]},
        ],
        webhook={"url": "https://a.test", "events": ["page", "monitor.check.completed", "check.completed"]},
        notification={"email": {"enabled": True, "recipients": ["a@example.com"], "includeDiffs": True}},
        goal="  changes of the price ",
        retentionDays=365,
        origin="python-sdk@4.53.2",
    )

    pages, site, queries = plan.targets
    assert isinstance(pages, PagesTarget)
    assert isinstance(site, SiteTarget)
    assert queries == QueriesTarget(
        id=id_of(2),
        queries=("price of tea",),
        search_window="24h",
        max_results=3,
        include_domains=("example.com",),
    )
    assert (plan.cron, plan.timezone, plan.goal, plan.judge_enabled) == (
        "30 21 * * *",
        "Europe/Berlin",
        "changes of the price",
        True,
    )
    assert [one["type"] for one in pages.scrape.formats] == ["changeTracking", "markdown"]
    assert (site.crawl.limit, site.crawl.include_paths, site.crawl.max_discovery_depth) == (9, ("/blog",), 2)
    assert (site.crawl.scrape.only_main_content, site.crawl.scrape.max_age) == (False, 0)
    assert plan.webhook == WebhookTarget(
        "https://a.test", {}, {}, ("page", "monitor.check.completed", "check.completed")
    )
    assert plan.body["targets"][1]["crawlOptions"] == crawl_options
    assert plan.body["schedule"] == {"cron": "30 21 * * *", "timezone": "Europe/Berlin"}


@for_each(
    ("wrong", "path"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 257}, "name"),
        ({"name": 5}, "name"),
        ({"schedule": {}}, "schedule"),
        ({"schedule": {"cron": "0 * * * *", "text": "hourly"}}, "schedule"),
        ({"schedule": {"cron": "* * * * *"}}, "schedule.cron"),
        ({"schedule": {"cron": "0 0 31 2 *"}}, "schedule.cron"),
        ({"schedule": {"cron": "0 0 29 2 *"}}, "schedule.cron"),
        ({"schedule": {"cron": "@daily"}}, "schedule.cron"),
        ({"schedule": {"text": "sometimes"}}, "schedule.text"),
        ({"schedule": {"cron": "0 * * * *", "timezone": "Mars/Base"}}, "schedule.timezone"),
        ({"schedule": "hourly"}, "schedule"),
        ({"targets": []}, "targets"),
        ({"targets": [PAGES] * 51}, "targets"),
        ({"targets": [{}]}, "targets.0"),
        ({"targets": [{"type": "map"}]}, "targets.0"),
        ({"targets": [{"type": "scrape"}]}, "targets.0.urls"),
        ({"targets": [{"type": "scrape", "urls": []}]}, "targets.0.urls"),
        ({"targets": [{"type": "scrape", "urls": ["nowhere"]}]}, "targets.0.urls.0"),
        ({"targets": [{**PAGES, "id": "5"}]}, "targets.0.id"),
        ({"targets": [{**PAGES, "url": URL}]}, "targets.0"),
        ({"targets": [{**SITE, "crawlOptions": {"limit": 0}}]}, "targets.0.crawlOptions.limit"),
        ({"targets": [{**SITE, "crawlOptions": {"webhook": URL}}]}, "targets.0.crawlOptions"),
        ({"targets": [{**SITE, "crawlOptions": {"colour": 1}}]}, "targets.0.crawlOptions"),
        ({"targets": [QUERIES]}, ""),
        ({"targets": [{**QUERIES, "queries": []}], "goal": "g"}, "targets.0.queries"),
        ({"targets": [{**QUERIES, "queries": ["q"] * 13}], "goal": "g"}, "targets.0.queries"),
        ({"targets": [{**QUERIES, "queries": ["q" * 257]}], "goal": "g"}, "targets.0.queries.0"),
        ({"targets": [{**QUERIES, "maxResults": 51}], "goal": "g"}, "targets.0.maxResults"),
        ({"targets": [{**QUERIES, "searchWindow": "1y"}], "goal": "g"}, "targets.0.searchWindow"),
        (
            {"targets": [{**QUERIES, "includeDomains": ["https://a.test"]}], "goal": "g"},
            "targets.0.includeDomains.0",
        ),
        (
            {"targets": [{**QUERIES, "includeDomains": ["a.test"], "excludeDomains": ["b.test"]}], "goal": "g"},
            "targets.0",
        ),
        ({"goal": "g" * 2001}, "goal"),
        ({"judgeEnabled": "yes"}, "judgeEnabled"),
        ({"retentionDays": 0}, "retentionDays"),
        ({"retentionDays": 366}, "retentionDays"),
        ({"notification": {"email": {"recipients": ["nobody"]}}}, "notification.email.recipients.0"),
        ({"notification": {"email": {"recipients": ["a@b.test"] * 26}}}, "notification.email.recipients"),
        ({"notification": {"pigeon": {}}}, "notification"),
        ({"webhook": {"url": "https://a.test", "events": ["crawl.page"]}}, "webhook.events.0"),
        ({"status": "paused"}, ""),
        ({"colour": "red"}, ""),
    ],
)
def test_a_wrong_monitor_is_refused_by_its_path(wrong: dict[str, Any], path: str) -> None:
    """Every limit of the record."""
    assert path in paths_of(refused(lambda: read(**wrong)))


@for_each("name", ["name", "schedule", "targets"])
def test_a_monitor_needs(name: str) -> None:
    """A name, a schedule and targets."""
    body = {key: value for key, value in BODY.items() if key != name}

    assert name in paths_of(refused(lambda: read_monitor(body, new_id=ids(), now=NOON)))


@for_each(("wrong", "path"), [row for row in WRONG_PAGE_OPTIONS if row[0] != {"formats": ["changeTracking"]}])
def test_wrong_options_of_pages_are_refused_inside_of_a_target(wrong: dict[str, Any], path: str) -> None:
    """The format markdown is added, so changeTracking may stand alone."""
    found = paths_of(refused(lambda: read(targets=[{**PAGES, "scrapeOptions": wrong}])))

    assert f"targets.0.scrapeOptions.{path}".rstrip(".") in found


def test_a_change_replaces_what_it_names() -> None:
    """All else stays, also the ids of the targets; a pause is a change too."""
    before = read(goal="prices", webhook="https://a.test").body

    paused = change(before, status="paused")
    assert paused.status == "paused"
    assert paused.body == {**before, "status": "paused"}
    moved = change(paused.body, targets=[SITE], schedule={"text": "hourly"})
    assert moved.body["targets"] == [{**SITE, "id": id_of(1)}]
    assert (moved.cron, moved.status, moved.goal, moved.webhook) == (
        "0 * * * *",
        "paused",
        "prices",
        WebhookTarget("https://a.test"),
    )


def test_a_goal_can_be_removed_and_set() -> None:
    """Null removes it; setting one turns the judge on, unless the change says otherwise."""
    before = read(goal="prices").body

    assert change(before, nulls=("goal",)).goal is None
    bare = read().body
    assert change(bare, goal="prices").judge_enabled
    assert not change(bare, goal="prices", judgeEnabled=False).judge_enabled
    assert not change(change(before, judgeEnabled=False).body, goal="other").judge_enabled


def test_a_webhook_and_notifications_can_be_removed() -> None:
    """Null removes what may be null in a monitor, and nothing else."""
    email = {"email": {"enabled": True, "recipients": ["ann@example.com"]}}
    before = read(webhook="https://a.test", notification=email, retentionDays=5).body
    after = change(before, nulls=("webhook", "notification", "retentionDays", "name"))

    assert (after.webhook, after.notification, after.body["webhook"]) == (None, {}, None)
    assert (after.retention_days, after.name) == (5, before["name"])


def test_an_empty_change_is_refused() -> None:
    """The origin that SDKs add counts as a key."""
    before = read().body

    assert refused(lambda: change(before)).error == "Update body cannot be empty"
    assert change(before, origin="python-sdk@4").body == before


@for_each(
    "wrong",
    [{"status": "deleted"}, {"status": 1}, {"name": ""}, {"targets": []}, {"schedule": {}}, {"colour": 1}],
)
def test_a_wrong_change_is_refused(wrong: dict[str, Any]) -> None:
    """By the rules of a new monitor."""
    before = read().body

    refused(lambda: change(before, **wrong))


FIELDS = [
    "name",
    "schedule",
    "targets",
    "webhook",
    "notification",
    "goal",
    "judgeEnabled",
    "retentionDays",
    "status",
]


@for_each("field", FIELDS)
@for_each("value", WRONG_TYPES)
def test_every_field_takes_every_type_without_a_crash(field: str, value: Any) -> None:
    """A wrong type is an issue, never a fault of ours."""
    before = read().body
    calls: list[Callable[[], MonitorPlan]] = [
        lambda: read(**{field: value}),
        lambda: change(before, **{field: value}),
    ]
    for call in calls:
        try:
            call()
        except CallRefused as exc:
            assert exc.status == 400  # noqa: PT017 - one of two right ends


JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["scrape", "crawl", "search", URL]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "urls", "url", "id", "crawlOptions", "cron", "text"]), inner)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_body_is_a_plan_or_the_services_400(body: dict[str, Any]) -> None:
    """Nothing else can come out of the readers."""
    before = read().body
    calls: list[Callable[[], MonitorPlan]] = [lambda: read(**body), lambda: change(before, **body)]
    for call in calls:
        try:
            call()
        except CallRefused as exc:
            assert (exc.status, exc.code) == (400, "BAD_REQUEST")  # noqa: PT017 - one of two right ends
