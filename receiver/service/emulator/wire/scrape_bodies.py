"""The bodies of scrapes, and the options that jobs have for their pages: the lenient face of the requests.

The fields are those of `receiver.requests`. A body here has only wire names, also takes what official SDKs send
along, and takes what the service takes although a sender should not send it.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, JsonValue, StrictBool, model_validator

from receiver.requests.base import Many, Request
from receiver.requests.formats import Format
from receiver.requests.options import JsonOptions, Location, Prompt
from receiver.requests.pages import ScrapeOptions, require_markdown
from receiver.requests.scrape import ScrapeFormat, ScrapeOptionsV1
from receiver.service.emulator.wire.urls import WebUrl

_CHECK = "checkPromptInjection"
_OLDER_PAGES = "pageMarkdown"


class SenderFields(BaseModel):
    """What SDKs put into every body. None of it changes what the emulator does."""

    origin: JsonValue = None
    """Name and version of the SDK."""
    integration: JsonValue = None
    """Name of the program that uses the SDK."""


class SdkOptions(SenderFields):
    """Options of pages that only SDKs know. None of them changes what the emulator does."""

    fast_mode: JsonValue = None
    """Faster, with fewer transformations."""
    use_mock: JsonValue = None
    """For the service's own tests."""
    check_prompt_injection: JsonValue = None
    """Whether pages are searched for instructions to language models."""
    domain_tools: JsonValue = None
    """Tools of a site for agents."""
    tool_detail: JsonValue = None
    """How much is told of these tools."""


def _with_upper_case_country(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("country"), str):
        return {**value, "country": value["country"].upper()}
    return value


AnyLocation = Annotated[Location, BeforeValidator(_with_upper_case_country)]
"""A location whose country may be in lower case."""


def _without_details(value: Any) -> Any:
    return True if isinstance(value, dict) else value


def _with_its_older_place(value: Any) -> Any:
    """Return options whose `checkPromptInjection` stands beside the formats, where SDKs also put it into json."""
    formats = value.get("formats") if isinstance(value, dict) else None
    if not isinstance(formats, list):
        return value
    checks = [one[_CHECK] for one in formats if _is_json(one) and _CHECK in one]
    if not checks:
        return value
    kept = [{name: one[name] for name in one if name != _CHECK} if _is_json(one) else one for one in formats]
    return {_CHECK: checks[0], **value, "formats": kept}


def _with_pages(value: Any) -> Any:
    """Return options whose parsers say `pages`. Its older name is taken too, as the JavaScript SDK says."""
    parsers = value.get("parsers") if isinstance(value, dict) else None
    if not isinstance(parsers, list):
        return value
    return {**value, "parsers": [_renamed(one) for one in parsers]}


def _renamed(parser: object) -> object:
    if not isinstance(parser, dict) or parser.get("type") != "pdf" or _OLDER_PAGES not in parser:
        return parser
    others = {name: parser[name] for name in parser if name != _OLDER_PAGES}
    return {"pages": parser[_OLDER_PAGES], **others}


def _is_json(format_: object) -> bool:
    return isinstance(format_, dict) and format_.get("type") in ("json", "deterministicJson")


class PageOptionsBody(ScrapeOptions, SdkOptions):
    """How version 2 scrapes the pages of a scrape or a job."""

    formats: Annotated[Many[Format], Field(max_length=100)] | None = None
    location: AnyLocation | None = None
    redact_pii: Annotated[StrictBool | None, Field(alias="redactPII"), BeforeValidator(_without_details)] = None
    """Also an object that says what is redacted and how; here all is, in one way."""

    _has_one_check = model_validator(mode="before")(_with_its_older_place)
    _has_newer_names = model_validator(mode="before")(_with_pages)
    _has_markdown = model_validator(mode="after")(require_markdown)


class ScrapeBody(PageOptionsBody):
    """The body of POST /v2/scrape."""

    url: WebUrl
    """The page."""
    zero_data_retention: StrictBool | None = None
    """Whether nothing of the scrape is kept."""


ScrapeFormatV1 = Literal[ScrapeFormat, "extract"]


class PageAgent(Request):
    """An agent that version 1 lets act on the page. It changes nothing here."""

    model: str | None = None
    """Name of its model."""
    prompt: Prompt | None = None
    """What it does."""
    session_id: str | None = None
    """A session to go on with."""
    wait_before_closing_ms: JsonValue = None
    """Milliseconds that the session stays open."""


class JsonOptionsBody(JsonOptions):
    """What version 1 extracts. What only SDKs know changes nothing here."""

    mode: JsonValue = None
    """Taken, and without effect here."""
    agent: PageAgent | None = None
    """Taken, and without effect here."""
    check_prompt_injection: JsonValue = None
    """Taken, and without effect here."""


class PageOptionsBodyV1(ScrapeOptionsV1, SdkOptions):
    """How version 1 scrapes the pages of a scrape or a job."""

    formats: Annotated[Many[ScrapeFormatV1], Field(max_length=100)] = ("markdown",)
    """Names of formats."""
    json_options: JsonOptionsBody | None = None
    extract: JsonOptionsBody | None = None
    """The older name of `json_options`, for the format `extract`."""
    agent: PageAgent | None = None
    """Taken, and without effect here."""
    min_age: JsonValue = None
    """Milliseconds; only older cached pages are answered."""
    lockdown: JsonValue = None
    """Whether only cached pages are answered."""
    profile: JsonValue = None
    """Taken, and without effect here."""
    parsers: JsonValue = None
    """Names of parsers, or objects."""
    redact_pii: Annotated[JsonValue, Field(alias="redactPII")] = None
    """Whether personal data are removed from texts."""
    audit_metadata: JsonValue = None
    """Who asked; it is not kept."""

    @model_validator(mode="after")
    def _check_formats(self) -> "PageOptionsBodyV1":
        names = set(self.formats)
        if "changeTracking" in names and "markdown" not in names:
            raise ValueError("formats: changeTracking needs markdown beside it")
        for name, options in (("json", self.json_options), ("extract", self.extract)):
            key = "jsonOptions" if name == "json" else name
            if (name in names) != (options is not None):
                raise ValueError(f"{key}: give it together with {name} in formats, and only then")
        if {"screenshot", "screenshot@fullPage"} <= names:
            raise ValueError("formats: give one of screenshot and screenshot@fullPage")
        return self


class ScrapeBodyV1(PageOptionsBodyV1):
    """The body of POST /v1/scrape."""

    url: WebUrl
    """The page."""
