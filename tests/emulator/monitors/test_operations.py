"""The operations of monitors, with the service's answers and the models of its SDK."""

import asyncio
import uuid
from typing import Any

import pytest
from firecrawl.v2 import types as sdk
from jsonschema import validate

from receiver.emulator.api.calls import ApiCall
from receiver.emulator.failures import CallRefused
from receiver.service.responses.monitors import Monitor
from tests.doubles import turns
from tests.emulator import schemas
from tests.emulator.monitors.studio import pages_target, studio, succeeded
from tests.emulator.pages import HOME, TEAM

Json = dict[str, Any]
NOBODY = str(uuid.UUID(int=7))
BODY: Json = {
    "name": "Shop",
    "schedule": {"text": "hourly at :30", "timezone": "Europe/Berlin"},
    "targets": [pages_target(HOME, formats=["markdown"])],
    "goal": " prices ",
    "webhook": {"url": "https://hook.example/", "metadata": {"a": "b"}, "events": ["monitor.page"]},
}
OPERATIONS = ("get", "change", "delete", "run", "checks", "check")


async def test_a_monitor_answers_with_every_field() -> None:
    async with studio() as one:
        made = await succeeded(one.operations.create(one.call(BODY)))
        read = await succeeded(one.operations.get(one.call(id=made["id"])))
        listed = await succeeded(one.operations.newest(one.call()))

    assert made == read
    assert listed == [made]
    assert made | {"id": "", "targets": []} == {
        "id": "",
        "name": "Shop",
        "status": "active",
        "schedule": {"cron": "30 * * * *", "timezone": "Europe/Berlin"},
        "targets": [],
        "webhook": {"url": "https://hook.example/", "metadata": {"a": "b"}, "events": ["monitor.page"]},
        "notification": {},
        "goal": "prices",
        "judgeEnabled": True,
        "retentionDays": 30,
        "createdAt": "2026-01-01T12:00:00.000Z",
        "updatedAt": "2026-01-01T12:00:00.000Z",
        "lastRunAt": None,
        "nextRunAt": "2026-01-01T12:30:00.000Z",
        "currentCheckId": None,
        "estimatedCreditsPerMonth": 1440,
        "lastCheckSummary": None,
    }
    assert sdk.Monitor.model_validate(made).judge_enabled is True
    assert Monitor.model_validate(made).status == "active"


async def test_the_sdk_reads_every_answer_about_checks() -> None:
    async with studio() as one:
        one.web.show("a")
        made = await one.create(goal="g")
        await one.check(made)
        one.web.show("b")
        check = await one.check(made)
        listed = await succeeded(one.operations.checks(one.call(id=made["id"])))
        after = await succeeded(one.operations.get(one.call(id=made["id"])))

    assert sdk.MonitorCheckDetail.model_validate(check).pages[0].status == "changed"
    assert [sdk.MonitorCheck.model_validate(item).status for item in listed] == ["completed", "completed"]
    summary = sdk.Monitor.model_validate(after).last_check_summary
    assert summary is not None
    assert summary.changed == 1


async def test_the_answers_have_the_fields_of_the_interface() -> None:
    """JSON Schemas, written from its tables, hold the records of monitors and checks in every state."""
    async with studio() as one:
        one.web.show("a")
        made = await one.operations.create(one.call(BODY))
        call = one.call(id=made.body["data"]["id"])
        run = await one.operations.run(call)
        during = await one.operations.get(call)
        await one.monitors.over()
        after = await one.operations.get(call)
        checks = await succeeded(one.operations.checks(call))
        listed = await succeeded(one.operations.newest(call))

    validate(run.body, schemas.MONITOR_RUN)
    for answer in (made, during, after):
        validate(answer.body, schemas.MONITOR_ANSWER)
    for check in checks:
        validate(check, schemas.CHECK)
    for monitor in listed:
        validate(monitor, schemas.MONITOR)


async def test_a_change_replaces_what_it_names() -> None:
    async with studio() as one:
        made = await one.create(goal="g")
        changed = await succeeded(
            one.operations.change(one.call({"name": "New", "targets": [pages_target(f"{HOME}b")]}, id=made["id"]))
        )
        without_goal = await succeeded(one.operations.change(one.call(nulls=frozenset({"goal"}), id=made["id"])))

    assert (changed["name"], changed["goal"]) == ("New", "g")
    assert [target["urls"] for target in changed["targets"]] == [[f"{HOME}b"]]
    assert without_goal["goal"] is None


async def test_an_empty_change_is_refused() -> None:
    async with studio() as one:
        made = await one.create()
        with pytest.raises(CallRefused, match="Update body cannot be empty") as refused:
            await one.operations.change(one.call(id=made["id"]))

    assert refused.value.status == 400


async def test_a_running_monitor_is_not_run_again() -> None:
    async with studio() as one:
        one.web.show("a")
        one.web.gate = asyncio.Event()
        made = await one.create()
        first = await one.operations.run(one.call(id=made["id"]))
        await turns()
        second = await one.operations.run(one.call(id=made["id"]))
        busy = await one.monitors.get(TEAM, made["id"])
        one.web.gate.set()
        await one.monitors.over()
        third = await one.operations.run(one.call(id=made["id"]))
        await one.monitors.over()

    assert (first.status, first.body["data"]["status"], first.body["data"]["trigger"]) == (200, "queued", "manual")
    assert (second.status, second.body["success"]) == (409, False)
    assert second.body["checkId"] == first.body["id"] == busy["currentCheckId"]
    assert third.status == 200


async def test_two_calls_at_once_start_one_check() -> None:
    async with studio() as one:
        one.web.show("a")
        made = await one.create()
        answers = await asyncio.gather(*(one.operations.run(one.call(id=made["id"])) for _ in range(5)))
        await one.monitors.over()

    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("case", ["unknown", "deleted", "another team", "no UUID"])
async def test_a_monitor_that_is_not_there_is_refused(name: str, case: str) -> None:
    async with studio() as one:
        made = await one.create()
        if case == "deleted":
            await one.operations.delete(one.call(id=made["id"]))
        monitor_id = {"unknown": NOBODY, "no UUID": "x"}.get(case, str(made["id"]))
        call = ApiCall(
            version=2,
            team="other" if case == "another team" else TEAM,
            path={"id": monitor_id, "checkId": NOBODY},
            body={"name": "b"},
        )
        with pytest.raises(CallRefused) as refused:
            await getattr(one.operations, name)(call)

    assert refused.value.status == (400 if case == "no UUID" else 404)
    assert refused.value.error == ("id: it has to be a UUID" if case == "no UUID" else "Monitor not found")


async def test_lists_are_paged_and_the_newest_comes_first() -> None:
    async with studio() as one:
        made = [(await one.create(name=f"m{number}"))["id"] for number in range(5)]
        call = ApiCall(version=2, team=TEAM, query={"limit": "2", "offset": "1"})
        listed = await succeeded(one.operations.newest(call))

    assert [monitor["id"] for monitor in listed] == [made[3], made[2]]


async def test_pages_of_a_check_are_paged_by_next() -> None:
    urls = [f"{HOME}{number}" for number in range(5)]
    async with studio() as one:
        for url in urls[:4]:
            one.web.show(url, url)
        made = await one.create(pages_target(*urls))
        check = await one.check(made)
        first = await one.answer(made, check["id"], limit="2")
        last = await one.answer(made, check["id"], limit="2", skip="4")
        some = await one.answer(made, check["id"], status="new", limit="1")
        none = await one.answer(made, check["id"], status="removed")

    assert [page["url"] for page in first["pages"]] == urls[:2]
    assert first["next"] == f"http://e/v2/monitor/{made['id']}/checks/{check['id']}?limit=2&skip=2"
    assert [page["url"] for page in last["pages"]] == urls[4:]
    assert "next" not in last
    assert some["next"].endswith("?limit=1&skip=1&status=new")
    assert none["pages"] == []


async def test_checks_are_filtered_by_their_status() -> None:
    async with studio() as one:
        one.web.show("a")
        made = await one.create()
        await one.check(made)

        assert len(await one.checks(made, status="completed")) == 1
        assert await one.checks(made, status="failed") == []


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "101"},
        {"limit": "x"},
        {"limit": "-1"},
        {"limit": "1e3"},
        {"limit": "٣"},
        {"offset": "-1"},
        {"offset": "9" * 30},
        {"status": "done"},
    ],
)
async def test_a_wrong_query_is_refused(query: dict[str, str]) -> None:
    async with studio() as one:
        made = await one.create()
        with pytest.raises(CallRefused) as refused:
            await one.checks(made, **query)

    assert (refused.value.status, refused.value.code) == (400, "BAD_REQUEST")
    assert refused.value.details


async def test_a_reset_stops_the_checks() -> None:
    async with studio() as one:
        one.web.gate = asyncio.Event()
        made = await one.create()
        await one.monitors.run(TEAM, made["id"])
        await turns()
        await one.monitors.reset()
        await one.monitors.over()

    assert one.mailbox.events == []
