"""The gate: host names, sign-in, form tokens, read-only, and the headers of every answer."""

from datetime import timedelta
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from receiver.core.clock import VirtualClock
from receiver.web.console.gate import COOKIE, MAX_FORM, MAX_TRIES, MAX_TRIES_OF_ALL, SESSION_LENGTH, local_target
from tests.doubles import ask, event_of
from tests.stores.opened import DEAD, Opened
from tests.web.console.browsing import Browser
from tests.web.console.conftest import MakeBrowser

PASSWORD = "correct horse"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8001", "localhost", "[::1]:8001", "ops.example.com", "OPS.example.com:80"]
)
async def test_it_answers_to_its_own_names(browse: MakeBrowser, opened: Opened, host: str) -> None:
    browser = browse(names=("ops.example.com",))

    await browser.page("/", headers={"host": host})


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:8001", "a b"]
)
async def test_it_refuses_other_host_names(browser: Browser, opened: Opened, host: str) -> None:
    """A foreign page whose name leads here sends its own name (DNS rebinding)."""
    await browser.page("/", 421, {"host": host})


async def test_every_answer_forbids_scripts_frames_and_caching(browser: Browser, opened: Opened) -> None:
    for path in ("/", "/nothing", "/static/console.js", "/sign-in"):
        answer = await browser.http.get(path)

        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    assert (await browser.http.get("/")).headers["cache-control"] == "no-store"


async def test_a_page_in_place_of_a_static_file_is_kept_by_nobody(browser: Browser, opened: Opened) -> None:
    """It has the form token of whoever asked."""
    await browser.page("/")
    missing = await browser.http.get("/static/nothing.js")

    assert missing.status_code == 404
    assert missing.headers["cache-control"] == "no-store"


async def test_a_static_file_is_asked_for_again_and_sent_once(browser: Browser, opened: Opened) -> None:
    file = await browser.http.get("/static/console.js")
    again = await browser.http.get("/static/console.js", headers={"if-none-match": file.headers["etag"]})

    assert file.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")


async def test_a_page_that_renews_itself_after_its_session_leads_to_the_sign_in(
    browse: MakeBrowser, opened: Opened
) -> None:
    """The browser would put the sign-in into the part of the page that it renews."""
    browser = browse(password=PASSWORD)

    answer = await browser.http.get("/", headers={"hx-request": "true"})

    assert (answer.status_code, answer.headers["hx-refresh"]) == (403, "true")
    assert "location" not in answer.headers


async def test_a_get_changes_nothing_and_other_methods_are_refused(browser: Browser, opened: Opened) -> None:
    assert (await browser.http.get("/sign-out")).status_code == 404
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert (await browser.http.request(method, "/")).status_code == 405


async def test_a_form_needs_the_token_of_its_session(browse: MakeBrowser, opened: Opened) -> None:
    browser, stranger = browse(), browse()
    token = await browser.token()

    assert (await browser.http.post("/handlers/one/pause", data={})).status_code == 403
    assert (await browser.http.post("/handlers/one/pause", data={"token": "0" * 64})).status_code == 403
    assert (await stranger.http.post("/handlers/one/pause", data={"token": token})).status_code == 403
    assert (await browser.http.post("/handlers/one/pause", data={"token": token})).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
async def test_a_form_from_another_site_is_refused(
    browser: Browser, opened: Opened, headers: dict[str, str]
) -> None:
    token = await browser.token()

    answer = await browser.http.post("/sign-out", data={"token": token}, headers=headers)

    assert answer.status_code == 403


async def test_a_long_form_is_refused(browser: Browser, opened: Opened) -> None:
    answer = await browser.http.post("/sign-out", data={"token": await browser.token(), "more": "x" * MAX_FORM})

    assert answer.status_code == 413


async def test_a_form_that_is_no_form_is_refused(browser: Browser, opened: Opened) -> None:
    await browser.token()

    answer = await browser.http.post("/sign-out", content=b"\xff\x00&&&==" + b"a=1&" * 500)

    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/sign-in", "/handlers/one/pause"])
async def test_a_client_that_goes_away_within_its_form_gets_no_answer(
    browser: Browser, opened: Opened, path: str
) -> None:
    """It is no fault of ours, and the log has no word of it."""
    headers = [(b"host", b"127.0.0.1:8001"), (b"content-length", b"1000")]

    answer = await ask(browser.app, path=path, headers=headers, chunks=[b"token=1"], ends="disconnect")

    assert not answer.sent


async def test_with_a_password_everything_waits_for_the_sign_in(browse: MakeBrowser, opened: Opened) -> None:
    browser = browse(password=PASSWORD)

    answer = await browser.http.get("/deliveries?type=crawl.page")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/sign-in?next=/deliveries%3Ftype%3Dcrawl.page",
    )
    assert (await browser.http.get("/changes")).status_code == 303
    assert (await browser.send("/handlers/one/pause")).status_code == 403

    signed_in = await browser.send("/sign-in", password=PASSWORD, next="/deliveries?type=crawl.page")
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/deliveries?type=crawl.page")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert "Sign out" in await browser.page("/deliveries")

    await browser.send("/sign-out", at="/deliveries")
    assert (await browser.http.get("/deliveries")).status_code == 303


@pytest.mark.parametrize("path", ["/sign-in", "/static/none"])
async def test_whoever_is_not_in_sees_no_version_and_no_pages(
    browse: MakeBrowser, opened: Opened, path: str
) -> None:
    browser = browse(password=PASSWORD)

    page = (await browser.http.get(path)).text

    assert "receiver 1 " not in page
    assert "<nav" not in page
    await browser.send("/sign-in", password=PASSWORD)
    assert "receiver 1 " in await browser.page("/deliveries")


async def test_over_https_the_cookie_is_secure(browse: MakeBrowser, opened: Opened) -> None:
    browser = browse("https://localhost", password=PASSWORD)

    assert "Secure" in (await browser.http.get("/sign-in")).headers["set-cookie"]


async def test_a_wrong_password_is_refused_and_after_five_nobody_may_try(
    browse: MakeBrowser, opened: Opened, clock: VirtualClock
) -> None:
    browser = browse(password=PASSWORD)
    for _ in range(MAX_TRIES):
        assert (await browser.send("/sign-in", password="guess")).status_code == 403

    refused = await browser.send("/sign-in", password=PASSWORD)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")

    clock.advance(timedelta(minutes=1))
    assert (await browser.send("/sign-in", password=PASSWORD)).status_code == 303


async def test_a_session_ends_after_twelve_hours(browse: MakeBrowser, opened: Opened, clock: VirtualClock) -> None:
    browser = browse(password=PASSWORD)
    await browser.send("/sign-in", password=PASSWORD)
    await browser.page("/")

    clock.advance(SESSION_LENGTH)

    assert (await browser.http.get("/")).status_code == 303


@pytest.mark.parametrize("cookie", ["", "a.b.c.d", "x", "a.1.9999999999.0000", "é", "...."])
async def test_a_made_up_cookie_is_no_session(browse: MakeBrowser, opened: Opened, cookie: str) -> None:
    browser = browse(password=PASSWORD)

    answer = await browser.http.get("/", headers=[(b"cookie", f"{COOKIE}={cookie}".encode())])

    assert answer.status_code == 303


async def test_read_only_shows_no_action_and_takes_none(browse: MakeBrowser, opened: Opened) -> None:
    await opened.in_state(DEAD)
    browser = browse(read_only=True)

    page = await browser.page("/work-items/1")

    assert "Retry" not in page
    assert "read-only" in page
    assert (await browser.send("/work-items/retry", ids="1")).status_code == 403
    assert (await browser.send("/handlers/one/pause")).status_code == 403


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("/deliveries?a=b", "/deliveries?a=b"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("deliveries", "/"),
    ],
)
def test_a_sign_in_leads_only_to_pages_of_this_console(target: str, leads_to: str) -> None:
    assert local_target(target) == leads_to


@pytest.mark.parametrize("target", ["//[", "http://[", "/a b", "/sign-out", "/a?next=//[::"])
async def test_an_odd_target_of_a_sign_in_is_no_fault(browse: MakeBrowser, opened: Opened, target: str) -> None:
    browser = browse(password=PASSWORD)

    assert "Password" in await browser.page(f"/sign-in?next={quote(target)}")
    answer = await browser.send("/sign-in", password=PASSWORD, next=target)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith("//")


async def test_an_origin_that_is_no_address_is_refused(browser: Browser, opened: Opened) -> None:
    answer = await browser.http.post(
        "/sign-out", data={"token": await browser.token()}, headers={"origin": "http://["}
    )

    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/sign-in/", "/sign-inside", "/sign-in/../deliveries", "/staticky"])
async def test_only_the_sign_in_itself_is_open(browse: MakeBrowser, opened: Opened, path: str) -> None:
    assert (await browse(password=PASSWORD).http.get(path)).status_code in (303, 404)
    assert (await browse(password=PASSWORD).http.get("/sign-inside")).status_code == 303


async def test_a_signed_out_cookie_is_taken_no_more(browse: MakeBrowser, opened: Opened) -> None:
    """A copy of it may be elsewhere."""
    browser = browse(password=PASSWORD)
    cookie = (await browser.send("/sign-in", password=PASSWORD)).headers["set-cookie"].partition(";")[0]
    thief = Browser(browser.app)
    assert (await thief.http.get("/", headers={"cookie": cookie})).status_code == 200

    await browser.send("/sign-out", at="/deliveries")

    assert (await thief.http.get("/", headers={"cookie": cookie})).status_code == 303


async def test_who_guesses_does_not_lock_out_others(
    browse: MakeBrowser, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """From many addresses together there are no more guesses than of one that has many."""
    guesser = browse(password=PASSWORD)
    for _ in range(MAX_TRIES):
        await guesser.send("/sign-in", password="guess")
    assert (await guesser.send("/sign-in", password="guess")).status_code == 429

    other = Browser(guesser.app, client="10.0.0.8")
    assert (await other.send("/sign-in", password=PASSWORD)).status_code == 303
    for number in range(MAX_TRIES_OF_ALL - MAX_TRIES):
        crowd = Browser(guesser.app, client=f"10.0.1.{number}")
        assert (await crowd.send("/sign-in", password="guess")).status_code == 403
    last = Browser(guesser.app, client="10.0.2.1")
    assert (await last.send("/sign-in", password=PASSWORD)).status_code == 429
    assert [event_of(record) for record in caplog.records].count("console_sign_in_refused") == MAX_TRIES_OF_ALL


@pytest.mark.parametrize("path", ["/static/none", "/static/console.css", "/static/"])
async def test_a_static_file_gives_no_session_and_no_wrong_links(
    browser: Browser, opened: Opened, path: str
) -> None:
    answer = await browser.http.get(path)

    assert "set-cookie" not in answer.headers
    assert "/static/static/" not in answer.text
    assert "/static/deliveries" not in answer.text


@pytest.mark.parametrize("root", ["/ops", "/ops/", "/a b", "/sign-in", "/static", "/é;x"])
async def test_under_a_mount_every_link_has_its_path(browse: MakeBrowser, opened: Opened, root: str) -> None:
    """Also where the mount is named like a page that needs no password."""
    app = browse(password=PASSWORD).app
    outer = Browser(Starlette(routes=[Mount(root.rstrip("/"), app)]))
    quoted = quote(root.rstrip("/"), safe="/;")

    answer = await outer.http.get(f"{quoted}/deliveries?type=a")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(quote(root.rstrip("/")) + "/sign-in?next=/deliveries")
    page = await outer.http.get(f"{quoted}/sign-in")
    assert f'action="{quote(root.rstrip("/"))}/sign-in"' in page.text
    assert ";x;" not in page.headers["set-cookie"]
