"""Every answer of the emulator, and every webhook, fits the tables of the interface specification."""

import asyncio
import json
from typing import Any

import pytest

from receiver.emulator.api.faults import CallFault
from tests.emulator import schemas
from tests.emulator.answering import ANSWERS, HOOK, ORIGIN, SESSIONS, Json, checked_service, hold, page

PRODUCT = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}
LAMP = {"name": "Lamp", "price": 12}
UNKNOWN = "019f2c10-0000-7000-8000-000000000001"

FORMATS_V1: list[tuple[list[str], Json, set[str]]] = [
    (["markdown"], {}, {"markdown"}),
    (["html"], {}, {"html"}),
    (["rawHtml", "links"], {}, {"rawHtml", "links"}),
    (["screenshot"], {}, {"screenshot", "warning"}),
    (["markdown", "screenshot@fullPage"], {}, {"markdown", "screenshot", "warning"}),
    (["json"], {"jsonOptions": {"schema": PRODUCT}}, {"json", "llm_extraction"}),
    (["extract"], {"extract": {"schema": PRODUCT}}, {"extract", "llm_extraction"}),
]
FORMATS_V2: list[tuple[list[str | Json], set[str]]] = [
    (["markdown"], {"markdown"}),
    (["html", "links", "images"], {"html", "links", "images"}),
    (["rawHtml"], {"rawHtml"}),
    (["rawBase64"], {"rawBase64"}),
    (["summary"], {"summary"}),
    (["screenshot"], {"screenshot", "warning"}),
    ([{"type": "question", "question": "How much is the lamp?"}], {"answer"}),
    ([{"type": "highlights", "query": "lamp"}], {"highlights"}),
    ([{"type": "query", "prompt": "lamp"}], {"answer"}),
    ([{"type": "json", "schema": PRODUCT}], {"json"}),
    ([{"type": "deterministicJson", "schema": PRODUCT}], {"json"}),
    (["markdown", "branding"], {"markdown", "warning"}),
    ([{"type": "attributes", "selectors": [{"selector": "html", "attribute": "lang"}]}], {"attributes"}),
]


async def test_scrapes() -> None:
    """Each format has its key and no other has; metadata tells of the page."""
    async with checked_service() as service:
        for names, more, keys in FORMATS_V1:
            body = {"url": f"{ORIGIN}/lamp", "formats": names, **more}
            answer = await service.ask("POST", "/v1/scrape", body)
            assert answer["data"].keys() == keys | {"metadata"}, names
        for formats, keys in FORMATS_V2:
            answer = await service.ask("POST", "/v2/scrape", {"url": f"{ORIGIN}/lamp", "formats": formats})
            assert answer["data"].keys() == keys | {"metadata"}, formats
            assert answer["data"].get("json", LAMP) == LAMP
        kept = await service.ask("GET", f"/v2/scrape/{answer['data']['metadata']['scrapeId']}")
        assert kept["data"] == answer["data"]

        for path, has in (
            ("/two.pdf", {"numPages": 2, "totalPages": 2, "creditsUsed": 2}),
            ("/gone", {"statusCode": 404, "error": "Not Found"}),
            ("/data.json", {"statusCode": 200, "contentType": "application/json; charset=utf-8"}),
            ("/", {"statusCode": 200, "ogLocaleAlternate": ["de"], "article:tag": ["x", "y"], "language": "en"}),
        ):
            for version in ("v1", "v2"):
                answer = await service.ask("POST", f"/{version}/scrape", {"url": f"{ORIGIN}{path}"})
                metadata = answer["data"]["metadata"]
                assert has.items() <= metadata.items(), metadata
        hit = await service.ask("POST", "/v2/scrape", {"url": f"{ORIGIN}/"})
        assert hit["data"]["metadata"]["cacheState"] == "hit"
        assert (await service.ask("POST", "/v1/scrape", {"url": f"{ORIGIN}/two.pdf", "parsePDF": False}))["data"]
        assert service.asked == service.family("scrape") - SESSIONS.keys()


async def test_options_of_a_scrape_that_change_nothing_here_are_told() -> None:
    """Both versions tell it in the document, version 2 also beside it."""
    async with checked_service() as service:
        body = {"url": f"{ORIGIN}/lamp", "waitFor": 10, "location": {"country": "DE"}, "proxy": "stealth"}
        first = await service.ask("POST", "/v1/scrape", body)
        second = await service.ask("POST", "/v2/scrape", body)

        assert first["data"]["metadata"]["proxyUsed"] == second["data"]["metadata"]["proxyUsed"] == "stealth"
        for told in (first["data"]["warning"], second["data"]["warning"], second["warning"]):
            assert all(name in told for name in ("waitFor", "location.country", "proxy"))


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_change_tracking(version: str) -> None:
    """A page is new, the same, changed with text and values, and removed; the SDK gets its diff as an object."""
    options = {"modes": ["git-diff", "json"], "schema": PRODUCT, "tag": "prices"}
    body: Json = {"url": f"{ORIGIN}/lamp", "maxAge": 0}
    if version == "v1":
        body |= {"formats": ["markdown", "changeTracking"], "changeTrackingOptions": options}
    else:
        body |= {"formats": ["markdown", {"type": "changeTracking", **options}]}
    async with checked_service() as service:

        async def track() -> Json:
            await service.clock.advance(minutes=1)
            answer = await service.ask("POST", f"/{version}/scrape", body)
            return dict(answer["data"]["changeTracking"])

        first, second = await track(), await track()
        assert (first["changeStatus"], first["previousScrapeAt"]) == ("new", None)
        assert (second["changeStatus"], "diff" in second) == ("same", False)
        service.pages["/lamp"] = str(service.pages["/lamp"]).replace("12", "13")
        changed = await track()
        assert changed["json"] == {"price": {"previous": 12, "current": 13}}
        text = changed["diff"] if version == "v1" else changed["diff"]["text"]
        assert "+A lamp for 13 euros." in text
        service.pages["/lamp"] = str(service.pages["/lamp"]).replace("13", "14")
        body["origin"] = "python-sdk@4"
        assert (await service.http.post(f"/{version}/scrape", json=body)).json()["data"]["changeTracking"]["diff"][
            "json"
        ]["files"]
        del service.pages["/lamp"], body["origin"]
        assert (await track())["changeStatus"] == "removed"


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_crawls(version: str) -> None:
    """Start, running and ended status with pages, errors, active crawls, cancel, and all events."""
    async with checked_service() as service:
        path, body = f"/{version}/crawl", {"url": ORIGIN, "limit": 50, "delay": 1, "webhook": HOOK}
        crawl = f"{path}/{(await service.ask('POST', path, body))['id']}"
        running = await service.ask("GET", crawl)
        assert (running["status"], "next" in running) == ("scraping", True)
        for name in ("active", "ongoing"):
            (active,) = (await service.ask("GET", f"{path}/{name}"))["crawls"]
            assert active["options"]["limit"] == 50
        await service.clock.advance(minutes=1)

        events = await service.events(version)
        done = await service.ask("GET", f"{crawl}?limit=2")
        assert (done["status"], done["completed"], done["total"]) == ("completed", 5, 5)
        documents = done["data"]
        while "next" in done:
            done = await service.ask("GET", done["next"].removeprefix("http://emulator.test"))
            documents += done["data"]
        errors = await service.ask("GET", f"{crawl}/errors")
        assert [one["code"] for one in errors["errors"]] == ["SCRAPE_SITE_ERROR"]
        assert errors["robotsBlocked"] == [f"{ORIGIN}/private/x"]
        pages = [one for one in events if one["type"] == "crawl.page"]
        assert [one["data"][0] for one in pages if one["success"]] == documents
        assert [events[0]["type"], events[-1]["type"]] == ["crawl.started", "crawl.completed"]
        assert len(events) == len(pages) + 2 == 8

        other = (await service.ask("POST", path, body))["id"]
        await service.ask("DELETE", f"{path}/{other}")
        assert (await service.ask("GET", f"{path}/{other}"))["status"] == "cancelled"
        assert {one["type"] for one in await service.events(version)} >= {"crawl.page", "crawl.completed"}
        await service.ask("DELETE", crawl, status=409)
        await service.ask("GET", f"{path}/{UNKNOWN}", status=404)
        if version == "v2":
            asked = {"url": ORIGIN, "prompt": "only blog and docs"}
            assert (await service.ask("POST", f"{path}/params-preview", asked))["data"]["includePaths"]
        assert {one for one in service.family("crawl") if one[1].startswith(f"/{version}")} == service.asked


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_batch_scrapes(version: str) -> None:
    """Start with wrong URLs, grow, status, errors, cancel, and all events."""
    async with checked_service() as service:
        path = f"/{version}/batch/scrape"
        urls = [f"{ORIGIN}/lamp", f"{ORIGIN}/loop", "no url at all"]
        body = {"urls": urls, "ignoreInvalidURLs": True, "webhook": HOOK, "formats": ["markdown", "html", "links"]}
        started = await service.ask("POST", path, body)
        assert started["invalidURLs"] == urls[2:]
        job = f"{path}/{started['id']}"
        grown = await service.ask("POST", path, {"urls": [f"{ORIGIN}/guide"], "appendToId": started["id"]})
        assert grown["id"] == started["id"]

        events = await service.events(version)
        assert [events[0]["type"], events[-1]["type"]] == ["batch_scrape.started", "batch_scrape.completed"]
        assert sorted(one["success"] for one in events[1:-1]) == [False, True, True]
        done = await service.ask("GET", job)
        assert (done["status"], done["completed"]) == ("completed", 2)
        assert len((await service.ask("GET", f"{job}/errors"))["errors"]) == 1

        many = body | {"urls": urls[:2] * 100, "maxConcurrency": 1}
        other = (await service.ask("POST", path, many))["id"]
        await service.ask("DELETE", f"{path}/{other}")
        assert (await service.ask("GET", f"{path}/{other}"))["status"] == "cancelled"
        await service.events(version)
        await service.ask("DELETE", job, status=409)
        assert {one for one in service.family("batch") if one[1].startswith(f"/{version}")} == service.asked


MONITOR: Json = {
    "name": "prices",
    "goal": "Tell me when a price changes",
    "schedule": {"cron": "0 * * * *", "timezone": "Europe/Berlin"},
    "targets": [
        {
            "type": "scrape",
            "urls": [f"{ORIGIN}/lamp", f"{ORIGIN}/loop"],
            "scrapeOptions": {"onlyMainContent": True},
        },
        {"type": "crawl", "url": f"{ORIGIN}/guide", "crawlOptions": {"limit": 5}},
    ],
    "notification": {"email": {"enabled": True, "includeDiffs": True, "recipients": ["a@b.example"]}},
    "webhook": HOOK,
}


async def test_monitors() -> None:
    """Made, listed, read, changed, run by hand and by the schedule, deleted: the records and the events fit."""
    async with checked_service() as service:
        made = (await service.ask("POST", "/v2/monitor", MONITOR))["data"]
        monitor = f"/v2/monitor/{made['id']}"
        run = await service.ask("POST", f"{monitor}/run")
        assert (run["data"]["status"], run["data"]["targetResults"]) == ("queued", [])
        await service.ask("POST", f"{monitor}/run", status=409, schema=schemas.MONITOR_BUSY)
        first = await service.events()
        assert [one["data"][0]["status"] for one in first[:-1]] == ["new", "error", "new", "new"]
        assert (first[-1]["success"], first[-1]["data"][0]["status"]) == (False, "partial")

        service.pages["/lamp"] = str(service.pages["/lamp"]).replace("12", "13")
        del service.pages["/guide/more"]
        service.pages["/guide"] = page("The guide says how lamps are lit.")
        await service.clock.advance(hours=1)
        second = await service.events()
        told = {one["data"][0]["url"]: one["data"][0] for one in second[:-1]}
        lamp = told[f"{ORIGIN}/lamp"]
        assert (lamp["status"], lamp["isMeaningful"], lamp["judgment"]["confidence"]) == ("changed", True, "low")
        check = await service.ask("GET", f"{monitor}/checks/{second[-1]['id']}")
        pages = {one["url"]: one["status"] for one in check["data"]["pages"]}
        assert pages[f"{ORIGIN}/guide/more"] == "removed"
        part = await service.ask("GET", f"{monitor}/checks/{second[-1]['id']}?limit=1")
        assert (await service.ask("GET", part["next"].removeprefix("http://emulator.test")))["data"]["pages"]

        listed = (await service.ask("GET", f"{monitor}/checks"))["data"]
        assert [one["trigger"] for one in listed] == ["scheduled", "manual"]
        assert (await service.ask("GET", "/v2/monitor"))["data"][0]["lastCheckSummary"]["changed"] == 2
        search = {"targets": [{"type": "search", "queries": ["lamps"]}]}
        assert (await service.ask("PATCH", monitor, search))["data"]["targets"][0]["type"] == "search"
        await service.ask("POST", f"{monitor}/run")
        *hits, ended = await service.events()
        assert ended["data"][0]["status"] == "completed"
        assert [(one["data"][0]["status"], one["data"][0]["currentScrapeId"]) for one in hits] == [
            ("new", None)
        ] * len(hits)
        assert f"{ORIGIN}/lamp" in {one["data"][0]["url"] for one in hits}
        await service.ask("POST", f"{monitor}/run")
        (again,) = await service.events()
        check = await service.ask("GET", f"{monitor}/checks/{again['id']}")
        assert {one["metadata"]["searchStatus"] for one in check["data"]["pages"]} == {"already_seen"}
        result = check["data"]["targetResults"][0]
        assert (result["searchCompleted"], result["matches"], result["resultCount"]) == (True, 0, len(hits))

        assert (await service.ask("PATCH", monitor, {"status": "paused"}))["data"]["nextRunAt"] is None
        await service.ask("POST", f"{monitor}/run", status=409)
        await service.ask("GET", monitor)
        await service.ask("DELETE", monitor)
        await service.ask("GET", monitor, status=404)
        await service.ask("PATCH", f"/v2/monitor/{UNKNOWN}", {}, status=404)
        assert service.asked == service.family("monitor")


async def test_maps_and_the_account() -> None:
    """Lists of URLs, what is left and used, and what runs and waits."""
    async with checked_service() as service:
        assert len((await service.ask("POST", "/v1/map", {"url": ORIGIN}))["links"]) > 3
        found = await service.ask("POST", "/v2/map", {"url": ORIGIN, "search": "lamp"})
        assert found["links"][0]["url"] == f"{ORIGIN}/lamp"
        assert (await service.ask("POST", "/v2/map", {"url": f"{ORIGIN}/lamp"}))["warning"]
        await service.ask("POST", "/v2/scrape", {"url": ORIGIN})
        for method, path in sorted(service.family("team", "concurrency-check")):
            await service.ask(method, path)
        await service.ask("GET", "/v2/team/credit-usage/historical?byApiKey=true")
        assert service.asked >= service.family("team", "concurrency-check", "map")


def scrape(**more: Any) -> tuple[str, str, Json]:
    """Return a scrape of the start page with these options."""
    return "POST", "/v2/scrape", {"url": ORIGIN, **more}


REFUSED: list[tuple[int, str | None, tuple[str, str, Json | None]]] = [
    (400, "BAD_REQUEST", scrape(formats=["nothing"])),
    (400, "BAD_REQUEST", scrape(unknown=1)),
    (400, "BAD_REQUEST", ("POST", "/v1/scrape", {"url": ORIGIN, "timeout": "soon"})),
    (400, "BAD_REQUEST", ("POST", "/v1/crawl", {"url": "no url"})),
    (400, "BAD_REQUEST", ("POST", "/v2/batch/scrape", {"urls": []})),
    (400, "BAD_REQUEST", ("POST", "/v2/map", {"url": ORIGIN, "limit": 0})),
    (400, "BAD_REQUEST", ("POST", "/v2/monitor", {"name": ""})),
    (400, "BAD_REQUEST", ("POST", "/v2/crawl/params-preview", {"url": ORIGIN})),
    (400, "BAD_REQUEST", ("GET", "/v2/crawl/1", None)),
    (400, "BAD_REQUEST", ("GET", f"/v2/crawl/{UNKNOWN}?limit=0", None)),
    (400, None, ("GET", "/v2/scrape/1", None)),
    (400, "SCRAPE_ACTIONS_NOT_SUPPORTED", scrape(actions=[{"type": "wait", "milliseconds": 1}])),
    (403, None, scrape(threatProtection={"mode": "normal"})),
    (404, "SCRAPE_NO_CACHED_DATA", scrape(minAge=1000)),
    (404, "SCRAPE_LOCKDOWN_CACHE_MISS", scrape(lockdown=True)),
    (404, None, ("GET", f"/v2/scrape/{UNKNOWN}", None)),
    (404, None, ("GET", f"/v2/batch/scrape/{UNKNOWN}/errors", None)),
    (404, None, ("GET", f"/v2/monitor/{UNKNOWN}/checks", None)),
    (404, None, ("GET", "/v2/nothing", None)),
    (405, None, ("PUT", "/v2/scrape", None)),
    (500, "SCRAPE_SITE_ERROR", scrape(url=f"{ORIGIN}/loop")),
    (500, "SCRAPE_SITE_ERROR", scrape(url="https://elsewhere.test")),
    (500, "SCRAPE_UNSUPPORTED_FILE_ERROR", scrape(url=f"{ORIGIN}/program.exe")),
]


async def test_refusals_and_failures() -> None:
    """Each has the service's error body, with its status and code, and a list of issues where a body is wrong."""
    async with checked_service() as service:
        for status, code, (method, path, body) in REFUSED:
            answer = await service.ask(method, path, body, status=status)
            assert answer.get("code") == code, answer
            assert ("details" in answer) == (code == "BAD_REQUEST" and path != "/v2/crawl/1"), answer
        json_type = {"Content-Type": "application/json"}
        wrong = await service.ask("POST", "/v2/scrape", status=400, content=b"{", headers=json_type)
        assert wrong["code"] == "BAD_REQUEST_INVALID_JSON"
        large = json.dumps({"url": ORIGIN, "includeTags": ["x" * 11_000_000]})
        await service.ask("POST", "/v2/scrape", status=413, content=large, headers=json_type)
        key = {"x-idempotency-key": UNKNOWN}
        await service.ask("POST", "/v2/crawl", {"url": ORIGIN, "limit": 1}, headers=key)
        await service.ask("POST", "/v2/crawl", {"url": ORIGIN, "limit": 1}, status=409, headers=key)
        for status in (408, 429, 500, 502):
            service.emulator.faults.calls.append(CallFault(operation="scrape", status=status))
            await service.ask(*scrape(), status=status)
        lost = (await service.http.post("/v2/scrape", json={"url": "https://no.invalid"})).json()
        hold(lost, schemas.ERROR)


async def test_keys_credits_and_limits() -> None:
    """401 without the key, 402 without credits, 429 with the time to wait, 403 for a blocked page."""
    async with checked_service(keys=("fc-test",)) as service:
        for header in ("", "Bearer wrong"):
            await service.ask(*scrape(), status=401, headers={"Authorization": header})
    async with checked_service(credits=1) as service:
        await service.ask(*scrape())
        for path, body in (
            ("crawl", {"url": ORIGIN}),
            ("batch/scrape", {"urls": [ORIGIN]}),
            ("map", {"url": ORIGIN}),
        ):
            await service.ask("POST", f"/v2/{path}", body, status=402)
    async with checked_service(plan="free") as service:
        for _ in range(2):
            await service.ask("POST", "/v2/crawl", {"url": ORIGIN, "limit": 1})
        refused = await service.http.post("/v2/crawl", json={"url": ORIGIN, "limit": 1})
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        hold(refused.json(), schemas.ERROR)
    async with checked_service(threat_protection="on") as service:
        blocked = await service.ask(*scrape(threatProtection={"blacklist": ["*.acme.test"]}), status=403)
        assert blocked["code"] == "unsafe_domain_blocked"


@pytest.mark.parametrize("path", ["/v1/crawl", "/v2/crawl", "/v2/batch/scrape"])
async def test_a_watcher_is_told_in_the_same_words(path: str) -> None:
    """What is there, each document, and the end."""
    async with checked_service() as service:
        body = {"urls": [f"{ORIGIN}/lamp"]} if "batch" in path else {"url": ORIGIN}
        job = await service.ask("POST", path, body)
        told: list[Json] = []

        async def send(message: Any) -> None:
            if "text" in message:
                told.append(json.loads(message["text"]))

        await service.emulator(socket_scope(f"{path}/{job['id']}"), Arrivals(), send)

        document = schemas.DOCUMENT_V1 if path.startswith("/v1") else schemas.DOCUMENT_V2
        for message in told:
            hold(message, schemas.socket_message(document))
        assert [told[0]["type"], told[-1]["type"]] == ["catchup", "done"]
        assert len(told[0]["data"]["data"]) + len(told) - 2 == (1 if "batch" in path else 5)


class Arrivals:
    """What a watcher sends: it connects and stays."""

    def __init__(self) -> None:
        self._connected = False

    async def __call__(self) -> Any:
        if self._connected:
            await asyncio.Event().wait()
        self._connected = True
        return {"type": "websocket.connect"}


def socket_scope(path: str) -> Any:
    """Return the scope of a handshake with a key."""
    headers = [(b"authorization", b"Bearer fc-test"), (b"host", b"emulator.test")]
    return {"type": "websocket", "path": path, "headers": headers, "query_string": b"", "scheme": "ws"}


async def test_every_operation_has_a_schema() -> None:
    """A new operation needs a row in the table."""
    async with checked_service() as service:
        assert {(one.method, one.path) for one in service.operations} == ANSWERS.keys()


async def test_parsers_of_a_pdf() -> None:
    """The document has its pages one by one; what needs OCR says that there is none."""
    async with checked_service() as service:
        body: Json = {
            "url": f"{ORIGIN}/two.pdf",
            "parsers": [{"type": "pdf", "pages": True, "maxPages": 1}, "image"],
        }
        answer = await service.ask("POST", "/v2/scrape", body)

    assert answer["data"]["pages"] == [{"pageNumber": 1, "markdown": "One"}]
    assert answer["data"]["metadata"]["numPages"] == 1
    assert answer["data"]["metadata"]["totalPages"] == 2
    assert "image needs OCR" in answer["warning"]


async def test_a_map_knows_no_page_that_was_not_there() -> None:
    """A scrape of an address that a site does not have does not make it a page of the site."""
    async with checked_service() as service:
        await service.ask("POST", "/v2/scrape", {"url": f"{ORIGIN}/nowhere"})
        await service.ask("POST", "/v2/scrape", {"url": f"{ORIGIN}/two.pdf"})
        answer = await service.ask("POST", "/v2/map", {"url": ORIGIN})

    urls = [link["url"] for link in answer["links"]]
    assert f"{ORIGIN}/nowhere" not in urls
    assert f"{ORIGIN}/two.pdf" in urls


async def test_the_check_of_a_url_costs_two_credits() -> None:
    """Section Limits: threatProtection mode normal, +2 credits per URL checked."""
    async with checked_service(threat_protection="on") as service:
        body = {"url": f"{ORIGIN}/guide", "threatProtection": {"mode": "normal"}}
        answer = await service.ask("POST", "/v1/scrape", body)

    assert answer["data"]["metadata"]["creditsUsed"] == 3
