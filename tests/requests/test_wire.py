"""The JSON of requests: as short as possible, under wire names, and equal when it is read back."""

import functools
import json
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from receiver import requests
from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    ChangeTrackingOptions,
    CrawlRequest,
    ExtractRequest,
    JsonOptions,
    Location,
    MonitorChanges,
    MonitorRequest,
    PdfAction,
    Request,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeTarget,
    SearchTarget,
    WaitAction,
    WebhookConfig,
)
from tests.cases import for_each

PAGE = "https://example.com/page"
PUBLIC = [getattr(requests, name) for name in requests.__all__]
MODELS: list[type[Request]] = [
    one for one in PUBLIC if isinstance(one, type) and issubclass(one, Request) and one is not Request
]


@for_each(
    ("request_", "wire"),
    [
        (ScrapeRequest(url=PAGE), {"url": PAGE}),
        (
            ScrapeRequest(
                url=PAGE,
                formats=["markdown"],
                block_ads=True,
                max_age=0,
                mobile=False,
                only_main_content=True,
                parse_pdf=True,
                proxy="basic",
                remove_base64_images=True,
                skip_tls_verification=False,
                store_in_cache=True,
                timeout=30000,
                wait_for=0,
                zero_data_retention=False,
            ),
            {"url": PAGE},
        ),
        (ScrapeRequest(url=PAGE, location=Location(country="US")), {"url": PAGE, "location": {}}),
        (CrawlRequest(url=PAGE, limit=10_000), {"url": PAGE}),
        (BatchScrapeRequest(urls=[PAGE], ignore_invalid_urls=True), {"urls": [PAGE]}),
        (ExtractRequest(prompt="p"), {"prompt": "p"}),
        (AgentRequest(prompt="p"), {"prompt": "p"}),
        (MonitorChanges(status="paused"), {"status": "paused"}),
    ],
)
def test_defaults_are_not_sent(request_: Request, wire: dict[str, Any]) -> None:
    """Unset fields are not sent either."""
    assert request_.wire() == wire


def test_the_kind_of_an_action_is_always_sent() -> None:
    """It is a default, but it says which action it is."""
    request = ScrapeRequest(url=PAGE, actions=[WaitAction(milliseconds=5), {"type": "scrape"}, PdfAction(scale=1)])

    assert request.wire()["actions"] == [{"type": "wait", "milliseconds": 5}, {"type": "scrape"}, {"type": "pdf"}]


def test_values_are_sent_under_their_wire_names() -> None:
    """Some names are not plain camel case."""
    crawl = CrawlRequest(
        url=PAGE,
        limit=5,
        deduplicate_similar_urls=False,
        regex_on_full_url=True,
        scrape_options=ScrapeOptions(redact_pii=True, only_main_content=True, formats=[{"type": "json"}, "links"]),
        webhook="https://hooks.example.com/webhooks",
    )

    assert crawl.wire() == {
        "url": PAGE,
        "limit": 5,
        "deduplicateSimilarURLs": False,
        "regexOnFullURL": True,
        "scrapeOptions": {"redactPII": True, "onlyMainContent": True, "formats": [{"type": "json"}, "links"]},
        "webhook": {"url": "https://hooks.example.com/webhooks"},
    }
    assert AgentRequest(prompt="p", strict_constrain_to_urls=True).wire()["strictConstrainToURLs"] is True
    assert ScrapeRequest(url=PAGE, parse_pdf=False).wire() == {"url": PAGE, "parsePDF": False}
    options = ChangeTrackingOptions(modes=["json"], schema_={"type": "object"}, tag="t")
    assert options.wire() == {"modes": ["json"], "schema": {"type": "object"}, "tag": "t"}
    assert JsonOptions(system_prompt="s").wire() == {"systemPrompt": "s"}


def test_a_monitor_is_sent_as_documented() -> None:
    """It has targets of all kinds."""
    monitor = MonitorRequest(
        name="prices",
        schedule=Schedule(text="hourly", timezone="UTC"),
        targets=[
            ScrapeTarget(urls=[PAGE]),
            {"type": "crawl", "url": PAGE, "crawlOptions": {"limit": 5}},
            SearchTarget(queries=["q"], search_window="1h", max_results=5),
        ],
        goal="prices",
        webhook=WebhookConfig(url="https://hooks.example.com", events=["check.completed"]),
        notification={"email": {"enabled": False, "recipients": ["a@b.example"]}},
    )

    assert monitor.wire() == {
        "name": "prices",
        "schedule": {"text": "hourly", "timezone": "UTC"},
        "targets": [
            {"type": "scrape", "urls": [PAGE]},
            {"type": "crawl", "url": PAGE, "crawlOptions": {"limit": 5}},
            {"type": "search", "queries": ["q"], "searchWindow": "1h", "maxResults": 5},
        ],
        "goal": "prices",
        "webhook": {"url": "https://hooks.example.com", "events": ["monitor.check.completed"]},
        "notification": {"email": {"enabled": False, "recipients": ["a@b.example"]}},
    }


@for_each("model", MODELS)
def test_fields_can_be_set_by_attribute_and_by_wire_name(model: type[Request]) -> None:
    """This holds for every request."""
    for name, field in model.model_fields.items():
        assert field.alias
        assert model.model_config["validate_by_name"]
        assert model.model_config["validate_by_alias"]
        assert not hasattr(BaseModel, name)


# --- round trips

names = st.text(string.ascii_lowercase, min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
addresses = st.builds("https://{}.example/{}".format, names, names)
json_objects = st.dictionaries(
    texts,
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.lists(texts, max_size=2),
    max_size=3,
)
named_options = st.sampled_from(["markdown", "pdf"]) | st.builds(
    lambda rest: {**rest, "type": "json"}, json_objects
)
domains = st.lists(st.sampled_from(["example.com", "*.example.org"]), max_size=3)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "url": addresses,
    "urls": st.lists(addresses, min_size=1, max_size=3),
    "blacklist": domains,
    "whitelist": domains,
    "include_domains": domains,
    "blocked_tlds": st.lists(st.sampled_from(["zip", "mov"]), max_size=3),
    "country": st.sampled_from(["US", "DE"]),
    "cron": st.sampled_from(["0 * * * *", "*/5 9 * * 1"]),
    "recipients": st.lists(st.sampled_from(["a@b.example"]), max_size=2),
    "events": st.just([]),
    "headers": st.dictionaries(st.sampled_from(["X-A", "Cookie"]), texts, max_size=2),
    "schema_": json_objects,
    "crawl_options": json_objects,
    "scale": st.floats(allow_nan=False, allow_infinity=False),
    "delay": st.floats(min_value=0, allow_infinity=False, allow_nan=False),
    "formats": st.lists(named_options, max_size=3),
    "parsers": st.lists(named_options, max_size=3),
}
"""Fields whose values have a form of their own."""


def values_for(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values for a field, by its JSON Schema; nested requests are drawn by the same rules."""
    if "$ref" in schema:
        return requests_of(next(one for one in MODELS if one.__name__ == schema["$ref"].rpartition("/")[2]))
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return st.one_of(*(values_for(one) for one in schema[choice] if one.get("type") != "null"))
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    match schema["type"]:
        case "integer":
            return st.integers(schema.get("minimum", 0), schema.get("maximum", 10_000))
        case "boolean":
            return st.booleans()
        case "string":
            return st.text(
                st.characters(exclude_categories=["Cs"]), min_size=schema.get("minLength", 0), max_size=9
            )
        case "array":
            low = schema.get("minItems", 0)
            return st.lists(values_for(schema["items"]), min_size=low, max_size=low + 2)
        case "object":
            return st.dictionaries(texts, texts, max_size=2)
    raise AssertionError(f"no values for {schema}")


@functools.cache
def requests_of(model: type[Request]) -> st.SearchStrategy[Request]:
    """Return valid requests of a class, with any of its fields set."""
    schema = model.model_json_schema(by_alias=False)["properties"]
    fields = {name: BY_NAME[name] if name in BY_NAME else values_for(schema[name]) for name in model.model_fields}
    if model is ScrapeRequest:  # change tracking has a test of its own
        fields["formats"] = st.lists(st.sampled_from(["markdown", "html", "links", "json"]), max_size=3)
        del fields["change_tracking_options"]
    if model is Schedule:
        return st.builds(Schedule, cron=fields["cron"]) | st.builds(Schedule, text=fields["text"])
    if model is SearchTarget:
        del fields["exclude_domains"]
    if model is MonitorRequest:
        fields["judge_enabled"] = st.just(False)
    always = {name: fields.pop(name) for name in list(fields) if model.model_fields[name].is_required()}
    if model is MonitorRequest:
        always["judge_enabled"] = fields.pop("judge_enabled")
    if model is MonitorChanges:
        always["name"] = fields.pop("name")
    return st.fixed_dictionaries(always, optional=fields).map(model.model_validate)


@settings(max_examples=400)
@given(model=st.sampled_from(MODELS), data=st.data())
def test_a_request_reads_back_as_itself(model: type[Request], data: st.DataObject) -> None:
    """Its wire form is JSON without nulls. Reading and writing it again changes nothing."""
    made = data.draw(requests_of(model))

    wire = json.loads(json.dumps(made.wire()))

    again = model.model_validate(wire)
    assert again == made
    assert again.wire() == wire
    assert None not in wire.values()
