"""Bodies of extractions and agents: defaults, fields, and bodies of any kind."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import CallRefused
from receiver.emulator.jobs.records import kind_of, plan_from_json, plan_to_json
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.research import ResearchPlan, is_wildcard, read_agent, read_extract, wildcard_root

URL = "https://example.com/page"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "default": None}}}
GUARDED = RequestPolicy(threat_protection="on")
Version = Literal[1, 2]
HOOK = {"url": "http://127.0.0.1:9/w", "headers": {"X-A": "b"}, "metadata": {"k": "v"}, "events": ["completed"]}


@pytest.mark.parametrize("version", [1, 2])
def test_an_extraction_has_its_defaults(version: Version) -> None:
    """Version 1 refuses invalid URLs, scrapes no cached pages and has another proxy."""
    plan = read_extract({"urls": [URL], "schema": SCHEMA}, version)

    assert replace(plan, scrape=ResearchPlan(kind="extract").scrape) == ResearchPlan(
        kind="extract",
        version=version,
        urls=(URL,),
        invalid_urls=() if version == 2 else None,
        schema=SCHEMA,
    )
    assert plan.scrape.formats == ({"type": "markdown"}, {"type": "json", "schema": SCHEMA})
    assert (plan.scrape.max_age == 0, plan.scrape.proxy) == (version == 1, "basic" if version == 1 else "auto")


def test_every_field_of_an_extraction_is_read() -> None:
    plan = read_extract(
        {
            "urls": [URL, "example.com/*"],
            "prompt": "the name",
            "schema": SCHEMA,
            "systemPrompt": "Be brief.",
            "showSources": True,
            "allowExternalLinks": True,
            "enableWebSearch": True,
            "ignoreInvalidURLs": False,
            "scrapeOptions": {"timeout": 90_000, "headers": {"X-A": "b"}, "formats": ["html"]},
            "agent": {"model": "FIRE-1"},
            "webhook": HOOK,
            "threatProtection": {"blockedTlds": ["zip"]},
            "origin": "python-sdk",
            "integration": "x",
        },
        2,
        GUARDED,
    )

    assert plan.urls == (URL, "http://example.com/*")
    assert [is_wildcard(url) for url in plan.urls] == [False, True]
    assert (plan.searches, plan.external, plan.show_sources, plan.invalid_urls) == (True, True, True, None)
    assert plan.webhook == WebhookTarget("http://127.0.0.1:9/w", {"X-A": "b"}, {"k": "v"}, ("completed",))
    assert plan.scrape.formats[1] == {
        "type": "json",
        "schema": SCHEMA,
        "prompt": "the name",
        "systemPrompt": "Be brief.",
    }
    assert (plan.scrape.timeout, plan.scrape.headers) == (90_000, {"X-A": "b"})
    assert plan.scrape.threat_protection == {"blockedTlds": ["zip"]}
    assert plan.without_effect == ("agent",)
    assert plan_from_json(kind_of(plan), plan_to_json(plan)) == plan


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://a.test/*", "https://a.test/"),
        ("https://a.test/docs/*", "https://a.test/docs/"),
        ("https://a.test/docs/*?page=2#x", "https://a.test/docs/"),
        ("https://a.test/docs*", None),
        ("https://a.test/docs?x=/*", None),
    ],
)
def test_a_wildcard_stands_at_the_end_of_a_path(url: str, root: str | None) -> None:
    assert (wildcard_root(url) if is_wildcard(url) else None) == root


def test_version_1_has_older_fields() -> None:
    older = {"limit": 5, "ignoreSitemap": True, "includeSubdomains": True, "urlTrace": True, "timeout": 60_000}
    plan = read_extract({"urls": [], "prompt": "x", **older, "zeroDataRetention": True}, 1)

    assert (plan.urls, plan.searches, plan.scrape.zero_data_retention) == ((), True, True)


def test_an_extraction_without_wishes_asks_for_the_main_values() -> None:
    (_, format_) = read_extract({"urls": [URL]}, 2).scrape.formats

    assert "main values" in format_["prompt"]


def test_every_field_of_an_agent_is_read() -> None:
    body = {
        "prompt": "prices",
        "urls": [URL],
        "schema": SCHEMA,
        "maxCredits": 50,
        "strictConstrainToURLs": True,
        "model": "spark-1-pro",
        "effort": "high",
        "mode": "extract",
        "threadId": "019f2c10-0000-7000-8000-000000000001",
        "webhook": "http://127.0.0.1:9/w",
        "auditMetadata": {"username": "ann"},
        "location": {"country": "de"},
        "zeroDataRetention": True,
    }
    plan = read_agent(body)

    assert (plan.searches, plan.follows_links, plan.max_credits, plan.model) == (False, False, 50, "spark-1-pro")
    assert plan.thread_id == body["threadId"]
    assert plan.without_effect == ("effort", "mode")
    assert not plan.scrape.only_main_content
    assert (plan.scrape.country, plan.scrape.zero_data_retention) == ("DE", True)
    assert plan_from_json(kind_of(plan), plan_to_json(plan)) == plan
    assert read_agent({"prompt": "x"}).max_credits == 2_500


FIELDS = ["urls", "prompt", "schema", "systemPrompt", "showSources", "scrapeOptions", "webhook", "maxCredits"]
FIELDS += ["strictConstrainToURLs", "threadId", "agent", "ignoreInvalidURLs", "enableWebSearch", "model", "origin"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from([URL, f"{URL}/*", "object"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "type", "url"]), inner),
    max_leaves=10,
)


@given(body=st.dictionaries(st.sampled_from(FIELDS), JSON), version=st.sampled_from([1, 2]))
def test_any_body_is_a_plan_or_the_services_400(body: dict[str, Any], version: Version) -> None:
    """Nothing else can come out of the readers, and each plan can be kept."""
    for kind in ("extract", "agent"):
        try:
            plan = read_extract(body, version, GUARDED) if kind == "extract" else read_agent(body, GUARDED)
        except CallRefused as exc:
            assert (exc.status, exc.code) == (400, "BAD_REQUEST")  # noqa: PT017 - one of two right ends
        else:
            assert plan_from_json(kind_of(plan), plan_to_json(plan)) == plan
