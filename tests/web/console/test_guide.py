"""The guide in the console: every topic, its links, and the gate in front of it. No store is needed."""

import re
from html import unescape
from importlib import resources
from urllib.parse import urlsplit

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.core.guide import TOPICS
from receiver.web.console.app import ConsoleApp
from receiver.web.console.parts import ConsoleOptions
from receiver.web.console.rendering import clean_html, topic_html
from tests.doubles import NOON
from tests.web.console.browsing import Browser, links


class NoStore:
    """A store that nobody may ask for anything."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"a page of the guide asked the store for {name}")


def browser_for(store: object, **options: str) -> Browser:
    """Return a browser for a console over this store."""
    return Browser(ConsoleApp(store, VirtualClock(NOON), ConsoleOptions(version="1", **options)))  # type: ignore[arg-type]


async def test_the_list_leads_to_every_topic_and_needs_no_store() -> None:
    """So the guide can be read while the disk is full or the database away."""
    browser = browser_for(NoStore())

    found = links(await browser.page("/guide"))

    assert [target for target in found if target.startswith("/guide/")] == [f"/guide/{name}" for name in TOPICS]
    for name in TOPICS:
        assert "<h1>" in await browser.page(f"/guide/{name}")
    assert "no such page" in await browser.page("/guide/nothing", 404)
    assert "no such page" in await browser.page("/guide/..%2fguide%2fstart", 404)


def test_every_link_between_topics_leads_to_a_heading() -> None:
    """Under a mount they stay below it."""
    pages = {f"/below/guide/{name}": topic_html(name, "/below") for name in TOPICS}
    for place, page in pages.items():
        for target in map(unescape, re.findall(r'href="([^"]*)"', page)):
            link = urlsplit(target)
            if link.scheme:
                continue
            there = pages[link.path or place]
            assert not link.fragment or f'id="{link.fragment}"' in there, (place, target)


def test_every_link_of_another_page_to_the_guide_leads_to_a_heading() -> None:
    """Such as from the dead letters to the runbook."""
    folder = resources.files("receiver.web.console") / "templates"
    found = [
        match
        for template in folder.iterdir()
        for match in re.findall(r'"{{ root }}/guide/([a-z]+)#([a-z-]+)"', template.read_text(encoding="utf-8"))
    ]

    assert len(found) >= 3
    for topic, anchor in found:
        assert f'id="{anchor}"' in topic_html(topic, ""), (topic, anchor)


def test_made_parts_are_in_the_pages() -> None:
    """Settings, commands, signals and exit codes come from the code."""
    page = topic_html("reference", "")

    for made in ("RETENTION_KEYS", "receiver work-items retry", "work_dead", "130"):
        assert f"<code>{made}</code>" in page


def test_a_foreign_page_cannot_bring_ids_or_scripts() -> None:
    """The guide is cleaned by the same function as what deliveries bring; only headings of the guide have ids."""
    harm = '<h2 id="main">x</h2><p id="y" onclick="z()">t</p><script>1</script>'

    assert clean_html(harm) == "<h2>x</h2><p>t</p>"
    assert clean_html(harm, with_id=["h2"]) == '<h2 id="main">x</h2><p>t</p>'


@pytest.mark.parametrize("path", ["/guide", "/guide/security"])
async def test_the_gate_is_in_front_of_the_guide(path: str) -> None:
    """It asks for the password, and sets the policy that allows nothing inline."""
    answer: httpx.Response = await browser_for(NoStore(), password="secret-words").http.get(path)

    assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?next={path}")
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
