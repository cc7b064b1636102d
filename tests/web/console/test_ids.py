"""Ids that come from outside, in the addresses of pages."""

import pytest

from receiver.web.console.filters import from_segment, segment
from tests.doubles import delivery
from tests.stores.opened import ONE, Opened
from tests.web.console.browsing import Browser, links

ODD = (
    "a/b", "a%2Fb", "..", ".", "./x", "a?b=c", "a#b", "日本", "a b", "x/body", "~x", "~YQ", "'\"<>", "body", "é",
    "\\", "-", "a:b", "http://evil.example/", "//evil.example", "%", "\u202e",
)  # fmt: skip


@pytest.mark.parametrize("key", [*ODD, "\ud800", "019a-b_c.1"])
def test_any_id_is_one_safe_segment(key: str) -> None:
    written = segment(key)

    assert from_segment(written) == key
    assert written.strip(".")
    assert set(written) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:~-")


@pytest.mark.parametrize("key", ODD)
async def test_a_delivery_with_an_odd_id_has_its_page_its_body_and_its_job(
    browser: Browser, opened: Opened, key: str
) -> None:
    await opened.add(delivery(key, job_id=f"job/{key}"), delivery(f"{key}1"))
    await opened.route(ONE)

    (link,) = [one for one in links(await browser.page("/deliveries")) if one == f"/deliveries/{segment(key)}"]
    page = await browser.page(link)
    (job,) = [one for one in links(page) if one.startswith("/jobs/")]
    assert f"../deliveries/{segment(key)}" in links(await browser.page(job))
    body = await browser.http.get(f"{link}/body")
    assert body.status_code == 200
    assert body.headers["content-disposition"].isascii()
    answer = await browser.send(f"{link}/run-again", at=link)
    assert answer.headers["location"] == link


@pytest.mark.parametrize("path", ["/work-items", "/quarantine", "/actions"])
@pytest.mark.parametrize("number", ["9" * 19, "9" * 30, "9" * 5_000, "²", "-1"])
async def test_a_number_that_no_row_has_is_not_found(
    browser: Browser, opened: Opened, path: str, number: str
) -> None:
    answer = await browser.http.get(f"{path}/{number}")

    assert answer.status_code == 404
