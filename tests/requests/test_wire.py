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
    JsonFormat,
    JsonOptions,
    Location,
    MonitorChanges,
    MonitorRequest,
    ParseRequest,
    PdfAction,
    Request,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeTarget,
    SearchRequest,
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
        (ScrapeRequest(url=PAGE, max_age=0), {"url": PAGE, "maxAge": 0}),
        (
            ScrapeRequest(url=PAGE, formats=["markdown"], mobile=False, proxy="basic", timeout=30000, wait_for=0),
            {
                "url": PAGE,
                "formats": ["markdown"],
                "mobile": False,
                "proxy": "basic",
                "timeout": 30000,
                "waitFor": 0,
            },
        ),
        (ScrapeRequest(url=PAGE, location=Location()), {"url": PAGE, "location": {}}),
        (ScrapeRequest(url=PAGE, location=Location(country="US")), {"url": PAGE, "location": {"country": "US"}}),
        (CrawlRequest(url=PAGE, limit=10_000), {"url": PAGE, "limit": 10_000}),
        (BatchScrapeRequest(urls=[PAGE], ignore_invalid_urls=True), {"urls": [PAGE], "ignoreInvalidURLs": True}),
        (ScrapeRequest(url=PAGE, actions=[]), {"url": PAGE, "actions": []}),
        (BatchScrapeRequest(urls=[PAGE], parsers=[]), {"urls": [PAGE], "parsers": []}),
        (
            CrawlRequest(url=PAGE, webhook=WebhookConfig(url=PAGE, headers={}, events=[])),
            {"url": PAGE, "webhook": {"url": PAGE, "headers": {}, "events": []}},
        ),
        (ExtractRequest(prompt="p"), {"prompt": "p"}),
        (AgentRequest(prompt="p", max_credits=None), {"prompt": "p"}),
        (MonitorChanges(status="paused"), {"status": "paused"}),
    ],
)
def test_exactly_what_was_set_is_sent(request_: Request, wire: dict[str, Any]) -> None:
    """A value that equals the documented default is sent: the service's own default differs by version."""
    assert request_.wire() == wire


@for_each(
    ("changes", "wire"),
    [
        ({"goal": None}, {"goal": None}),
        (
            {"goal": None, "webhook": None, "notification": None},
            {"goal": None, "webhook": None, "notification": None},
        ),
        ({"goal": None, "name": None, "status": "paused"}, {"goal": None, "status": "paused"}),
        ({"judge_enabled": False}, {"judgeEnabled": False}),
        ({"notification": {"email": {"recipients": []}}}, {"notification": {"email": {"recipients": []}}}),
        ({"webhook": {"url": PAGE, "events": []}}, {"webhook": {"url": PAGE, "events": []}}),
        ({"targets": [{"type": "search", "queries": ["q"]}]}, {"targets": [{"type": "search", "queries": ["q"]}]}),
    ],
)
def test_a_change_can_remove_what_a_monitor_has(changes: dict[str, Any], wire: dict[str, Any]) -> None:
    """None removes a goal, a webhook and a notification; for other fields it stands for "not set"."""
    assert MonitorChanges.model_validate(changes).wire() == wire
    assert json.loads(json.dumps(MonitorChanges.model_validate(changes).wire())) == wire


def test_a_null_inside_of_a_schema_is_sent() -> None:
    """It is a value there; only a field of a request that is None counts as not set."""
    schema = {"type": "object", "properties": {"a": {"default": None, "enum": [None, 1]}}}

    assert ExtractRequest(prompt="p", schema_=schema).wire()["schema"] == schema


def test_the_kind_of_an_action_is_always_sent() -> None:
    """It is a default, but it says which action it is."""
    request = ScrapeRequest(url=PAGE, actions=[WaitAction(milliseconds=5), {"type": "scrape"}, PdfAction(scale=1)])

    assert request.wire()["actions"] == [
        {"type": "wait", "milliseconds": 5},
        {"type": "scrape"},
        {"type": "pdf", "scale": 1.0},
    ]


def test_values_are_sent_under_their_wire_names() -> None:
    """Some names are not plain camel case."""
    crawl = CrawlRequest(
        url=PAGE,
        limit=5,
        deduplicate_similar_urls=False,
        regex_on_full_url=True,
        scrape_options=ScrapeOptions(redact_pii=True, formats=[JsonFormat(prompt="p"), "links"]),
        webhook="https://hooks.example.com/webhooks",
    )

    assert crawl.wire() == {
        "url": PAGE,
        "limit": 5,
        "deduplicateSimilarURLs": False,
        "regexOnFullURL": True,
        "scrapeOptions": {"redactPII": True, "formats": [{"type": "json", "prompt": "p"}, "links"]},
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
def test_a_default_that_is_set_is_sent(model: type[Request]) -> None:
    """This holds for every field of every request that has a default of its own."""
    for name, field in model.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
        if default is not None and not field.exclude:
            assert field.alias in model.model_construct(**{name: default}).wire(), name


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
formats = st.sampled_from(["markdown", "links", {"type": "html"}]) | st.builds(
    lambda schema: {"type": "json", "schema": schema}, json_objects
)
parsers = st.sampled_from(["pdf", "image", {"type": "image"}]) | st.builds(
    lambda most: {"type": "pdf", "maxPages": most}, st.integers(1, 10_000)
)
ids = st.uuids().map(str)
domains = st.lists(st.sampled_from(["example.com", "*.example.org"]), max_size=3)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "url": addresses,
    "urls": st.lists(addresses, min_size=1, max_size=3),
    "blacklist": domains,
    "whitelist": domains,
    "include_domains": st.lists(st.just("example.com"), max_size=3),
    "blocked_tlds": st.lists(st.sampled_from(["zip", "mov"]), max_size=3),
    "country": st.sampled_from(["US", "DE"]),
    "cron": st.sampled_from(["0 * * * *", "*/5 9 * * 1"]),
    "recipients": st.lists(st.sampled_from(["a@b.example"]), max_size=2),
    "events": st.just([]),
    "id": ids,
    "append_to_id": ids,
    "thread_id": ids,
    "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
    "text": st.sampled_from(["hourly", "every 30 minutes", "daily at 9:00 pm"]),
    "include_paths": st.lists(st.just("blog/.*"), max_size=2),
    "exclude_paths": st.lists(st.just("^/a$"), max_size=2),
    "milliseconds": st.integers(1, 1000),
    "wait_for": st.integers(0, 500),
    "headers": st.dictionaries(st.sampled_from(["X-A", "Cookie"]), st.text(string.printable[:95]), max_size=2),
    "schema_": json_objects,
    "crawl_options": json_objects,
    "scale": st.floats(allow_nan=False, allow_infinity=False),
    "delay": st.floats(0, 60, exclude_min=True),
    "formats": st.lists(formats, max_size=3),
    "parsers": st.lists(parsers, max_size=3),
    "categories": st.lists(st.sampled_from(["github", "pdf"]), max_size=2),
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
    if model is ScrapeRequest:  # change tracking and extraction have tests of their own
        fields["formats"] = st.lists(st.sampled_from(["markdown", "html", "links"]), max_size=3)
        del fields["change_tracking_options"], fields["json_options"]
    if model is Schedule:
        return st.builds(Schedule, cron=fields["cron"]) | st.builds(Schedule, text=fields["text"])
    if model is WaitAction:
        return st.builds(WaitAction, milliseconds=fields["milliseconds"]) | st.builds(WaitAction, selector=texts)
    if model in (SearchTarget, SearchRequest):
        del fields["exclude_domains"]
    needed = {name for name in fields if model.model_fields[name].is_required()} | NEEDED.get(model, set())
    always = {name: fields.pop(name) for name in needed}
    if model in (MonitorRequest, MonitorChanges):
        always["judge_enabled"] = st.just(False)  # a search target needs a goal otherwise
    return st.fixed_dictionaries(always, optional=fields).map(model.model_validate)


NEEDED: dict[type[Request], set[str]] = {
    MonitorRequest: {"judge_enabled"},
    MonitorChanges: {"judge_enabled", "name"},
    ExtractRequest: {"urls"},
    JsonFormat: {"prompt"},
}
"""Fields without which another field is not enough."""


@settings(max_examples=400)
@given(model=st.sampled_from([one for one in MODELS if one is not ParseRequest]), data=st.data())
def test_a_request_reads_back_as_itself(model: type[Request], data: st.DataObject) -> None:
    """Its wire form is JSON without nulls. Reading and writing it again changes nothing.

    The wire form of a ParseRequest is only a part of what is sent.
    """
    made = data.draw(requests_of(model))

    wire = json.loads(json.dumps(made.wire()))

    again = model.model_validate(wire)
    assert again == made
    assert again.wire() == wire
    assert None not in wire.values()
