"""Every row of the interface specification's tables has its field, with its default and its allowed values.

`vectors/interface.json` holds the rows, taken from the document's tables and from what its prose lists in brackets.
"""

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from receiver.events.documents import (
    ActionResults,
    ActionScrape,
    ChangeTracking,
    CheckSummary,
    Document,
    DocumentMetadata,
    JavascriptReturn,
    MonitorCheck,
)
from receiver.requests import (
    AgentRequest,
    AuditMetadata,
    BatchScrapeRequest,
    ChangeTrackingOptions,
    ClickAction,
    CrawlRequest,
    EmailNotification,
    ExecuteJavascriptAction,
    ExtractRequest,
    JsonOptions,
    Location,
    MapRequest,
    MonitorChanges,
    MonitorRequest,
    ParseRequest,
    PdfAction,
    PressAction,
    Profile,
    Request,
    Schedule,
    ScrapeAction,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeRequestV2,
    ScrapeTarget,
    ScreenshotAction,
    ScrollAction,
    SearchRequest,
    ThreatProtection,
    WaitAction,
    WebhookConfig,
    WriteAction,
)
from receiver.service.responses import (
    EmailSettings,
    Monitor,
    MonitorSchedule,
    MonitorTarget,
    ScrapeResponse,
    TargetOptions,
    WebhookSettings,
)
from tests.cases import for_each

Row = dict[str, str]
TABLES: dict[str, list[Row]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "interface.json").read_text(encoding="utf-8")
)

MODELS: dict[str, tuple[type[BaseModel], ...]] = {
    "scrape request": (ScrapeRequest,),
    "changeTrackingOptions": (ChangeTrackingOptions,),
    "threatProtection": (ThreatProtection,),
    "jsonOptions": (JsonOptions,),
    "location": (Location,),
    "action wait": (WaitAction,),
    "action screenshot": (ScreenshotAction,),
    "action click": (ClickAction,),
    "action write": (WriteAction,),
    "action press": (PressAction,),
    "action scroll": (ScrollAction,),
    "action scrape": (ScrapeAction,),
    "action executeJavascript": (ExecuteJavascriptAction,),
    "action pdf": (PdfAction,),
    "scrape response body": (ScrapeResponse,),
    "scrape response": (Document,),
    "actions result": (ActionResults,),
    "javascriptReturns item": (JavascriptReturn,),
    "scrapes item": (ActionScrape,),
    "changeTracking result": (ChangeTracking,),
    "metadata": (DocumentMetadata,),
    "monitor": (Monitor,),
    "summary counts": (CheckSummary,),
    "schedule": (MonitorSchedule, Schedule),
    "notification.email": (EmailSettings, EmailNotification),
    "target": (MonitorTarget, ScrapeTarget),
    "monitor webhook": (WebhookSettings,),
    "scrapeOptions": (TargetOptions, ScrapeOptions),
    "auditMetadata": (AuditMetadata,),
    "profile": (Profile,),
    "check": (MonitorCheck,),
    "webhook": (WebhookConfig,),
    "crawl request": (CrawlRequest,),
    "batch scrape request": (BatchScrapeRequest,),
}
"""Each table of the document, with the models that its rows are fields of."""

ATTRIBUTES = {
    "sourceURL": "source_url",
    "parsePDF": "parse_pdf",
    "redactPII": "redact_pii",
    "json": "json_",
    "schema": "schema_",
    "llm_extraction": "llm_extraction",
    "removeBase64Images": "remove_base64_images",
}
"""Wire names whose attribute is not plain snake_case."""

FREE_FORM = {"other keys"}
ROWS = [
    (model, row)
    for table, models in MODELS.items()
    for model in models
    for row in TABLES[table]
    if row["field"] not in FREE_FORM
]
ALLOWED = re.compile(r"[Aa]llowed(?: items)?:? (.*?)(?:\. |$)")


def attribute(wire_name: str) -> str:
    plain = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in wire_name)
    return ATTRIBUTES.get(wire_name, plain)


def field_of(model: type[BaseModel], row: Row) -> FieldInfo:
    field = model.model_fields[attribute(row["field"])]
    assert field.alias == row["field"]
    return field


def accepts(field: FieldInfo, value: Any) -> bool:
    try:
        TypeAdapter[Any](field.rebuild_annotation()).validate_python(value)
    except ValidationError:
        return False
    return True


def test_every_table_has_its_model() -> None:
    """A table that is added to the document fails here."""
    assert set(MODELS) == set(TABLES)


@for_each(("model", "row"), ROWS)
def test_every_row_has_its_field(model: type[BaseModel], row: Row) -> None:
    """The field has the wire name, and an attribute in snake_case."""
    assert field_of(model, row)


@for_each(("model", "row"), [one for one in ROWS if issubclass(one[0], Request)])
def test_requests_require_what_the_document_requires(model: type[Request], row: Row) -> None:
    """They require nothing else, apart from a few fields whose table does not say so."""
    known = (
        {"username", "name", "urls"} if model in (AuditMetadata, Profile, ScrapeTarget, BatchScrapeRequest) else ()
    )
    crawled = model is CrawlRequest and row["field"] == "url"
    required = row["required"] == "yes" or row["field"] in known or crawled

    assert field_of(model, row).is_required() is required


@for_each(("model", "row"), [one for one in ROWS if one[1]["default"]])
def test_defaults_are_those_of_the_document(model: type[BaseModel], row: Row) -> None:
    """So defaults need not be sent."""
    default = field_of(model, row).default
    if row["field"] == "location":  # its own default is that of its country
        default = f"country {Location().country}"
    shown = list(default) if isinstance(default, tuple) else default
    if isinstance(shown, list):
        assert row["default"] == f"[{', '.join(shown)}]"
    elif isinstance(shown, bool):
        assert row["default"] == str(shown).lower()
    elif isinstance(shown, float):
        assert float(row["default"]) == shown
    else:
        assert row["default"] == str(shown)


WITH_ALLOWED = [one for one in ROWS if issubclass(one[0], Request) and ALLOWED.search(one[1]["rule"])]


@for_each(("model", "row"), WITH_ALLOWED)
def test_allowed_values_are_those_of_the_document(model: type[Request], row: Row) -> None:
    """Each of them is accepted, and another value is refused."""
    found = ALLOWED.search(row["rule"])
    assert found is not None
    listed = re.sub(r" \([^)]*\)|, default .*", "", found[1])
    words = [word.strip(" .") for word in listed.split(",")]
    assert len(words) > 1
    several = row["type"].startswith("array")

    assert all(accepts(field_of(model, row), [word] if several else word) for word in words)
    assert not accepts(field_of(model, row), ["another"] if several else "another")


LIMIT = re.compile(r"max (?P<items>\d+) items|integer (?P<low>\d+)-(?P<high>\d+)|min (?P<least>\d+)")
WITH_LIMIT = [
    one for one in ROWS if issubclass(one[0], Request) and LIMIT.search(f"{one[1]['type']} {one[1]['rule']}")
]


@for_each(("model", "row"), WITH_LIMIT)
def test_limits_are_those_of_the_document(model: type[Request], row: Row) -> None:
    """The value at a limit is accepted, and the one beyond is refused."""
    found = LIMIT.search(f"{row['type']} {row['rule']}")
    assert found is not None
    field = field_of(model, row)

    if found["items"]:
        assert accepts(field, ["zip"] * int(found["items"]))
        assert not accepts(field, ["zip"] * (int(found["items"]) + 1))
        return
    lowest = int(found["low"] or found["least"])
    assert accepts(field, lowest)
    assert not accepts(field, lowest - 1)
    if found["high"]:
        assert accepts(field, int(found["high"]))
        assert not accepts(field, int(found["high"]) + 1)


def test_every_kind_of_limit_is_tested() -> None:
    """Three lists, a score, a wait and a quality."""
    assert len(WITH_LIMIT) == 6


SCRAPE = (
    "actions blockAds excludeTags formats headers includeTags location lockdown maxAge minAge mobile "
    "onlyCleanContent onlyMainContent parsers profile proxy redactPII removeBase64Images skipTlsVerification "
    "storeInCache threatProtection timeout waitFor auditMetadata"
)
VERSION_2: list[tuple[type[Request], str]] = [
    (ScrapeOptions, SCRAPE),
    (ScrapeRequestV2, f"{SCRAPE} url zeroDataRetention"),
    (BatchScrapeRequest, f"{SCRAPE} urls appendToId ignoreInvalidURLs maxConcurrency zeroDataRetention webhook"),
    (
        CrawlRequest,
        "url prompt excludePaths includePaths maxDiscoveryDepth sitemap ignoreQueryParameters "
        "deduplicateSimilarURLs limit crawlEntireDomain allowExternalLinks allowSubdomains ignoreRobotsTxt "
        "robotsUserAgent delay maxConcurrency regexOnFullURL zeroDataRetention webhook scrapeOptions",
    ),
    (
        MapRequest,
        "url search sitemap includeSubdomains ignoreQueryParameters filterByPath limit timeout ignoreCache "
        "location headers threatProtection auditMetadata",
    ),
    (
        SearchRequest,
        "query limit sources categories includeDomains excludeDomains tbs location country timeout "
        "ignoreInvalidURLs threatProtection scrapeOptions",
    ),
    (
        ParseRequest,
        "file filename contentType auditMetadata excludeTags formats includeTags onlyCleanContent onlyMainContent "
        "parsers redactPII removeBase64Images threatProtection timeout zeroDataRetention",
    ),
    (
        ExtractRequest,
        "urls prompt schema systemPrompt allowExternalLinks enableWebSearch showSources scrapeOptions "
        "ignoreInvalidURLs agent webhook threatProtection",
    ),
    (
        AgentRequest,
        "prompt urls schema maxCredits strictConstrainToURLs model webhook threadId threatProtection auditMetadata",
    ),
    (MonitorRequest, "name schedule targets webhook notification goal judgeEnabled retentionDays"),
    (MonitorChanges, "name status schedule targets webhook notification goal judgeEnabled retentionDays"),
]
"""The fields of version 2, by the requests of the service's own SDK and its public code."""


@for_each(("model", "names"), VERSION_2)
def test_version_2_has_the_fields_of_the_services_own_sdk(model: type[Request], names: str) -> None:
    """A request can set all of them, and no others."""
    assert {field.alias for field in model.model_fields.values()} == set(names.split())


def test_other_metadata_is_kept() -> None:
    """The document has a row for further keys of the page."""
    assert DocumentMetadata.read({"og:title": "Hi"}).model_extra == {"og:title": "Hi"}


def test_every_action_of_the_document_has_its_class() -> None:
    """There are nine, and `type` distinguishes them."""
    types = {
        model.model_fields["type"].default for name, (model, *_) in MODELS.items() if name.startswith("action ")
    }

    assert types == {name.removeprefix("action ") for name in TABLES if name.startswith("action ")}
    assert len(types) == 9


def test_a_truncated_pdf_is_recognised() -> None:
    """Its total number of pages is above the number of parsed pages."""
    assert DocumentMetadata(num_pages=10, total_pages=12).truncated
    assert not DocumentMetadata(num_pages=12, total_pages=12).truncated
    assert not DocumentMetadata(num_pages=12).truncated
