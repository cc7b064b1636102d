"""Models: every documented field has its attribute, and no value of another form fails the whole."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from receiver.events import documents
from receiver.events.documents import (
    ActionResults,
    ActionScrape,
    AgentResult,
    AgentStep,
    ChangeTracking,
    CheckedPage,
    CheckSummary,
    Diff,
    DiffChunk,
    DiffFile,
    DiffLine,
    Document,
    DocumentMetadata,
    ExtractResult,
    JavascriptReturn,
    Judgment,
    LegacyDocument,
    MeaningfulChange,
    MonitorCheck,
    MonitorDiff,
    ServiceModel,
    Snapshot,
    ValueChange,
)
from receiver.service import responses as answers
from receiver.service.responses import (
    ActiveCrawl,
    AgentStatus,
    EmailSettings,
    EmailSubscription,
    ExtractStatus,
    ImageHit,
    JobError,
    JobErrors,
    JobStarted,
    JobStatus,
    MapLink,
    MapResponse,
    Monitor,
    MonitorSchedule,
    MonitorTarget,
    NewsHit,
    NotificationSettings,
    QueueStatus,
    ScrapeResponse,
    SearchHits,
    SearchResponse,
    SlackSettings,
    TargetOptions,
    WebHit,
    WebhookSettings,
)
from tests.cases import for_each

# The service's documented fields, each with the attribute it is read as where that is not plain snake_case.
DOCUMENTED: dict[type[ServiceModel], str] = {
    Document: "markdown html rawHtml summary answer highlights audio video links images screenshot json=json_ "
    "extract llm_extraction actions changeTracking pages blocks branding product menu warning metadata",
    DocumentMetadata: "title description language keywords ogLocaleAlternate sourceURL=source_url url scrapeId "
    "statusCode contentType error proxyUsed cacheState cachedAt creditsUsed numPages totalPages concurrencyLimited "
    "concurrencyQueueDurationMs timezone",
    ActionResults: "javascriptReturns pdfs scrapes screenshots",
    JavascriptReturn: "type value",
    ActionScrape: "html url",
    ChangeTracking: "previousScrapeAt changeStatus visibility diff json=json_",
    Diff: "text json=json_",
    DiffFile: "from=from_ to chunks",
    DiffChunk: "content changes oldStart oldLines newStart newLines",
    DiffLine: "type content add del=del_ normal ln ln1 ln2",
    LegacyDocument: "content markdown metadata source",
    CheckedPage: "monitorId checkId url status previousScrapeId currentScrapeId error isMeaningful judgment diff "
    "id targetId statusCode metadata createdAt snapshot",
    Snapshot: "json=json_",
    Judgment: "meaningful confidence reason meaningfulChanges",
    MeaningfulChange: "type before after reason",
    MonitorDiff: "text json=json_",
    ValueChange: "previous current",
    MonitorCheck: "monitorId checkId status summary pages id trigger createdAt updatedAt scheduledFor startedAt "
    "finishedAt estimatedCredits reservedCredits actualCredits billingStatus error notificationStatus "
    "targetResults next",
    CheckSummary: "totalPages same changed new removed error",
    ExtractResult: "success data extractId warning llmUsage totalUrlsScraped sources tokensBilled creditsBilled "
    "urlTrace error",
    AgentStep: "creditsUsed action input",
    AgentResult: "creditsUsed data",
    ScrapeResponse: "success data",
    JobStarted: "id url invalidURLs=invalid_urls promptGeneratedOptions finalCrawlerOptions urlTrace threadId "
    "threadTurn",
    JobStatus: "status total completed creditsUsed expiresAt next data createdAt completedAt duration warning",
    JobError: "id timestamp url code error",
    JobErrors: "errors robotsBlocked",
    ActiveCrawl: "id teamId url options",
    ExtractStatus: "status data expiresAt error sources tokensUsed creditsUsed",
    AgentStatus: "status data error model expiresAt creditsUsed partial",
    QueueStatus: "jobsInQueue activeJobsInQueue waitingJobsInQueue maxConcurrency mostRecentSuccess",
    MapResponse: "id links warning",
    MapLink: "url title description",
    SearchResponse: "id data creditsUsed warning",
    SearchHits: "web news images",
    WebHit: "url title description position category",
    NewsHit: "url title snippet date imageUrl position",
    ImageHit: "url title imageUrl imageWidth imageHeight position",
    Monitor: "id name status goal createdAt updatedAt lastRunAt nextRunAt currentCheckId estimatedCreditsPerMonth "
    "judgeEnabled retentionDays lastCheckSummary schedule notification targets webhook unchangedPagesFree "
    "emailRecipientSubscriptions",
    MonitorSchedule: "cron timezone",
    NotificationSettings: "email slack",
    EmailSettings: "enabled includeDiffs recipients",
    SlackSettings: "enabled channelId channelName",
    EmailSubscription: "email status source confirmationEmailSent",
    WebhookSettings: "url headers metadata events",
    MonitorTarget: "id type urls url queries searchWindow maxResults includeDomains excludeDomains scrapeOptions "
    "crawlOptions",
    TargetOptions: "actions auditMetadata blockAds excludeTags includeTags formats headers location lockdown "
    "maxAge minAge mobile onlyCleanContent onlyMainContent parsers profile proxy redactPII=redact_pii "
    "removeBase64Images skipTlsVerification storeInCache threatProtection timeout waitFor",
}

SHAPES = sorted(DOCUMENTED, key=lambda shape: shape.__name__)

WRONG_FORMS: list[Any] = [True, 5, -1.5, "text", [1, None], {"an": "object"}, None, float("nan"), "\ud83d"]


def snake_case(wire_name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in wire_name)


def documented_fields(shape: type[ServiceModel]) -> list[tuple[str, str]]:
    pairs = (word.partition("=") for word in DOCUMENTED[shape].split())
    return [(wire_name, attribute or snake_case(wire_name)) for wire_name, _, attribute in pairs]


EVERY_FIELD = [
    (shape, wire_name, attribute) for shape in SHAPES for wire_name, attribute in documented_fields(shape)
]


def test_every_public_model_is_compared_with_the_documentation() -> None:
    """A misspelt field of another model would read as None for ever."""
    public = {getattr(documents, name) for name in documents.__all__} - {ServiceModel, documents.DiffTree}
    public |= {getattr(answers, name) for name in answers.__all__}

    assert public == set(DOCUMENTED)
    assert documents.__all__ == sorted(documents.__all__)
    assert answers.__all__ == sorted(answers.__all__)


@for_each(("shape", "wire_name", "attribute"), EVERY_FIELD)
def test_every_documented_field_has_its_attribute(
    shape: type[ServiceModel], wire_name: str, attribute: str
) -> None:
    """Attributes are snake_case of the wire name."""
    assert shape.model_fields[attribute].alias == wire_name


@for_each("shape", SHAPES)
def test_an_empty_object_reads_as_defaults(shape: type[ServiceModel]) -> None:
    """No field is required, and none counts as set."""
    empty = shape.read({})

    assert empty == shape()
    assert empty.model_fields_set == set()
    assert empty.model_extra == {}


@for_each(("shape", "wire_name", "attribute"), EVERY_FIELD)
def test_null_reads_like_a_missing_key(shape: type[ServiceModel], wire_name: str, attribute: str) -> None:
    """The field has its default in both cases."""
    assert getattr(shape.read({wire_name: None}), attribute) == getattr(shape(), attribute)


@for_each(("shape", "wire_name", "attribute"), EVERY_FIELD)
def test_a_value_of_another_form_is_kept(shape: type[ServiceModel], wire_name: str, attribute: str) -> None:
    """Either the field reads it, or the field has its default and the value is in `model_extra`."""
    for wrong in WRONG_FORMS:
        read = shape.read({wire_name: wrong, "unheard": 1})

        assert read.model_extra is not None
        assert read.model_extra["unheard"] == 1
        if wire_name in read.model_extra:
            assert read.model_extra[wire_name] is wrong
            assert getattr(read, attribute) == getattr(shape(), attribute)
            assert attribute not in read.model_fields_set
        else:
            assert attribute in read.model_fields_set


def test_a_value_of_another_form_affects_only_its_own_field() -> None:
    """Other fields of the object and its parents are read."""
    document = Document.read(
        {"markdown": "# Hi", "links": ["a", 5], "metadata": {"statusCode": "200", "title": "Hi", "cachedAt": "now"}}
    )

    assert document.markdown == "# Hi"
    assert document.links == ["a"]
    assert document.model_extra == {"links": ["a", 5]}
    assert document.metadata.title == "Hi"
    assert document.metadata.status_code is None
    assert document.metadata.cached_at is None
    assert document.metadata.model_extra == {"statusCode": "200", "cachedAt": "now"}


@for_each("wrong", ["200", 200.0, True, [200]])
def test_an_integer_is_not_guessed_from_another_form(wrong: Any) -> None:
    """A text that looks like a number may mean something else."""
    metadata = DocumentMetadata.read({"statusCode": wrong})

    assert metadata.status_code is None
    assert metadata.model_extra == {"statusCode": wrong}


def test_a_moment_is_aware_and_in_utc() -> None:
    """Any offset is accepted and converted."""
    read = [
        DocumentMetadata.read({"cachedAt": text}).cached_at
        for text in ("2026-08-03T21:11:25.636Z", "2026-08-03T23:11:25.636+02:00")
    ]

    assert read == [datetime(2026, 8, 3, 21, 11, 25, 636000, tzinfo=UTC)] * 2
    assert {moment.tzinfo for moment in read if moment} == {UTC}


@for_each("text", ["2026-08-03T21:11:25", "2026-08-03", "", 1785791485, "1785791485", "9999-12-31T23:59:59-23:00"])
def test_a_value_that_is_not_a_moment_is_kept(text: Any) -> None:
    """No offset is invented, and no number is read as seconds or milliseconds."""
    metadata = DocumentMetadata.read({"cachedAt": text})

    assert metadata.cached_at is None
    assert metadata.model_extra == {"cachedAt": text}


def test_a_lone_surrogate_is_kept() -> None:
    """It is legal JSON, as a value and as a key."""
    metadata = DocumentMetadata.read({"title": "half \ud83d", "half \ud83d": "key", "statusCode": "x"})

    assert metadata.title == "half \ud83d"
    assert metadata.model_extra == {"half \ud83d": "key", "statusCode": "x"}


def test_a_meta_tag_is_not_read_as_a_field() -> None:
    """The page chooses the names of its meta tags, so only wire names count."""
    metadata = DocumentMetadata.read({"source_url": "https://evil.example", "status_code": 200})

    assert metadata.source_url is None
    assert metadata.status_code is None
    assert metadata.model_extra == {"source_url": "https://evil.example", "status_code": 200}


def test_models_are_made_by_attribute_name_or_wire_name() -> None:
    """Tests of handlers make them by hand."""
    assert Document(raw_html="<p>") == Document.model_validate({"rawHtml": "<p>"})
    assert Document(raw_html=5).model_extra == {"rawHtml": 5}


def test_models_are_immutable() -> None:
    """A handler cannot change a field for the next handler."""
    with pytest.raises(ValidationError, match="frozen"):
        Document().markdown = "x"  # type: ignore[misc]


def test_a_value_that_is_not_an_object_is_refused_without_a_quote() -> None:
    """The text of the error may end in a log."""
    with pytest.raises(ValidationError) as caught:
        Document.model_validate("<secret>")

    assert "<secret>" not in str(caught.value)


@for_each("tag", ["title", "description", "language", "keywords"])
def test_repeated_meta_tags_are_lists(tag: str) -> None:
    """A page may have one text or a list of texts."""
    assert getattr(DocumentMetadata.read({tag: "one"}), tag) == "one"
    assert getattr(DocumentMetadata.read({tag: ["one", "two"]}), tag) == ["one", "two"]


@pytest.mark.parametrize("diff", ["@@ -1 +1 @@", {"text": "@@ -1 +1 @@", "json": {"files": []}}])
def test_the_diff_of_change_tracking_is_a_text_or_an_object(diff: Any) -> None:
    """The service documents both, and both read alike."""
    tracking = ChangeTracking.read({"diff": diff})

    assert tracking.diff_text == "@@ -1 +1 @@"
    assert tracking.diff is not None
    assert tracking.diff.text == "@@ -1 +1 @@"
    assert ChangeTracking().diff_text is None


@for_each("name", ["json", "extract", "llm_extraction"])
@for_each("value", [{"price": 9}, [], 0, False])
def test_structured_extraction_is_found_under_each_of_its_names(name: str, value: Any) -> None:
    """Versions of the service name it differently. An empty extraction counts too."""
    assert Document.read({name: value}).extracted == value
    assert Document().extracted is None


def test_the_tree_of_a_check_is_kept_beside_the_changed_values() -> None:
    """A check from the service's API can have a tree where events have changed values."""
    assert MonitorDiff.read({"json": {"files": []}}).model_extra == {"json": {"files": []}}
    assert MonitorDiff.read({"json": {"a": {"previous": 1}}}).json_ == {"a": ValueChange(previous=1)}


@for_each("shape", SHAPES)
def test_a_repr_is_short(shape: type[ServiceModel]) -> None:
    """Ten megabytes of text stay out of a log line, in every field."""
    long = "m" * 1_000_000
    read = shape.read(dict.fromkeys([wire_name for wire_name, _ in documented_fields(shape)], long) | {long: long})

    assert len(repr(read)) < 1000
    assert len(str(read)) < 1000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400)
@given(shape=st.sampled_from(SHAPES), data=st.data())
def test_every_object_is_read_and_every_key_is_kept(shape: type[ServiceModel], data: st.DataObject) -> None:
    """Each key is a field that was set, or is in `model_extra` with its own value."""
    keys = st.sampled_from([wire_name for wire_name, _ in documented_fields(shape)]) | st.text(st.characters())
    value = data.draw(st.dictionaries(keys, json_values, max_size=6))

    read = shape.read(value)

    extra = read.model_extra or {}
    for key, item in value.items():
        if key in extra:
            assert extra[key] is item
        else:
            field = next(name for name, field in shape.model_fields.items() if field.alias == key)
            assert field in read.model_fields_set


writable_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
writable_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | writable_texts
    | st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(writable_texts, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(shape=st.sampled_from(SHAPES), data=st.data())
def test_written_json_reads_back_as_itself(shape: type[ServiceModel], data: st.DataObject) -> None:
    """Only a lone surrogate cannot be written."""
    keys = st.sampled_from([wire_name for wire_name, _ in documented_fields(shape)]) | writable_texts
    read = shape.read(data.draw(st.dictionaries(keys, writable_values, max_size=6)))

    written = read.model_dump_json(by_alias=True, exclude_unset=True)

    assert shape.read(json.loads(written)) == read


def test_fields_shadow_nothing_of_pydantic() -> None:
    """A field named like a method of pydantic would warn and confuse type checkers."""
    for shape in SHAPES:
        assert not {name for name in shape.model_fields if hasattr(BaseModel, name)}


def test_a_round_trip_gives_the_wire_names_back() -> None:
    """Unknown keys and values of another form are included; nothing is added."""
    came = {
        "rawHtml": "<p>",
        "json": {"a": 1},
        "links": "none",
        "newFormat": 1,
        "changeTracking": {"diff": {"json": {"files": [{"from": None, "chunks": [{"changes": [{"del": True}]}]}]}}},
        "metadata": {"sourceURL": "https://example.com/", "ogTitle": "Hi"},
    }

    assert json.loads(Document.read(came).model_dump_json(by_alias=True, exclude_unset=True)) == came
