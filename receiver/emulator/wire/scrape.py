"""Scrapes of pages and files: from the body, or the scrape options of a job, to a plan with every default.

The fields are those of `receiver.requests`. A body here has only wire names, and also accepts what official SDKs
add, and what the service accepts although a sender should not send it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import jsonschema
from pydantic import BaseModel, BeforeValidator, Field, JsonValue, StrictBool, StrictInt, model_validator

from receiver.emulator.content.uploads import MAX_BYTES
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.urls import WebUrl
from receiver.requests.base import Many, Request, Tagged
from receiver.requests.formats import Format
from receiver.requests.options import JsonOptions, Location, Prompt, ThreatProtection
from receiver.requests.pages import ScrapeOptions, require_markdown
from receiver.requests.scrape import ScrapeFormat, ScrapeOptionsV1

_CHECK = "checkPromptInjection"
_OLDER_PAGES = "pageMarkdown"


class SenderFields(BaseModel):
    """What SDKs put into every body, without effect on the emulator."""

    origin: JsonValue = None
    """Name and version of the SDK."""
    integration: JsonValue = None


class SdkOptions(SenderFields):
    """Options of pages that only SDKs have, without effect on the emulator."""

    fast_mode: JsonValue = None
    use_mock: JsonValue = None
    check_prompt_injection: JsonValue = None
    domain_tools: JsonValue = None
    tool_detail: JsonValue = None


def _with_upper_case_country(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("country"), str):
        return {**value, "country": value["country"].upper()}
    return value


AnyLocation = Annotated[Location, BeforeValidator(_with_upper_case_country)]
"""A location whose country may be in lower case."""


def _without_details(value: Any) -> Any:
    return True if isinstance(value, dict) else value


def _with_its_older_place(value: Any) -> Any:
    """Return options with `checkPromptInjection` beside the formats; SDKs also put it into the format json."""
    formats = value.get("formats") if isinstance(value, dict) else None
    if not isinstance(formats, list):
        return value
    checks = [one[_CHECK] for one in formats if _is_json(one) and _CHECK in one]
    if not checks:
        return value
    kept = [{name: one[name] for name in one if name != _CHECK} if _is_json(one) else one for one in formats]
    return {_CHECK: checks[0], **value, "formats": kept}


def _with_pages(value: Any) -> Any:
    """Return options whose parsers say `pages`, which the JavaScript SDK also sends under its older name."""
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
    """Also an object that says what is redacted and how; here everything is, in one way."""

    _has_one_check = model_validator(mode="before")(_with_its_older_place)
    _has_newer_names = model_validator(mode="before")(_with_pages)
    _has_markdown = model_validator(mode="after")(require_markdown)


class ScrapeBody(PageOptionsBody):
    """The body of POST /v2/scrape."""

    url: WebUrl
    zero_data_retention: StrictBool | None = None


ScrapeFormatV1 = Literal[ScrapeFormat, "extract"]


class PageAgent(Request):
    """An agent that acts on the page in version 1. It has no effect here."""

    model: str | None = None
    prompt: Prompt | None = None
    session_id: str | None = None
    wait_before_closing_ms: JsonValue = None
    """Milliseconds that the session stays open."""


class JsonOptionsBody(JsonOptions):
    """What version 1 extracts. The fields of SDKs have no effect here."""

    mode: JsonValue = None
    agent: PageAgent | None = None
    check_prompt_injection: JsonValue = None


class PageOptionsBodyV1(ScrapeOptionsV1, SdkOptions):
    """How version 1 scrapes the pages of a scrape or a job. Its plain JSON values have no effect here."""

    formats: Annotated[Many[ScrapeFormatV1], Field(max_length=100)] = ("markdown",)
    json_options: JsonOptionsBody | None = None
    extract: JsonOptionsBody | None = None
    """As `json_options`, for the format `extract`."""
    agent: PageAgent | None = None
    min_age: JsonValue = None
    lockdown: JsonValue = None
    profile: JsonValue = None
    parsers: JsonValue = None
    redact_pii: Annotated[JsonValue, Field(alias="redactPII")] = None
    audit_metadata: JsonValue = None

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


Json = dict[str, Any]
Version = Literal[1, 2]
Path = Sequence[str | int]

_TWO_DAYS = 172_800_000
_TIMEOUT, _TIMEOUT_OF_EXTRACTION, _TIMEOUT_OF_PROXY = 30_000, 60_000, 120_000
LONGEST_TIMEOUT = 300_000
"""The most milliseconds of a page, whatever was asked for."""
_LONGEST_AGE = 3_155_760_000_000
"""Milliseconds of a century: no copy is older, and no date may be before year 1."""
_PDF: tuple[Json, ...] = ({"type": "pdf"},)
_SDK_ONLY = ("fast_mode", "use_mock", "check_prompt_injection", "domain_tools", "tool_detail", "agent")
_SDK_ONLY_V1 = ("min_age", "lockdown", "profile", "parsers", "redact_pii", "audit_metadata")


def read_scrape(body: Json, version: Version, policy: RequestPolicy = DEFAULT_POLICY) -> ScrapePlan:
    """Return the plan of POST /v1/scrape or /v2/scrape. CallRefused is the service's 400, or 403."""
    model: type[ScrapeBodyV1 | ScrapeBody] = ScrapeBodyV1 if version == 1 else ScrapeBody
    read = read_body(model, body, policy, version=version)
    return plan_of(read, policy, url=read.url, origin=read.origin, unkept=read.zero_data_retention is True)


def plan_of(
    options: PageOptionsBody | PageOptionsBodyV1,
    policy: RequestPolicy,
    *,
    url: str = "",
    path: Path = (),
    origin: object = None,
    unkept: bool = False,
) -> ScrapePlan:
    """Return the plan for options that were read. CallRefused is the 400 of rules about defaults, or 403."""
    version: Version = 1 if isinstance(options, PageOptionsBodyV1) else 2
    formats = tuple(_formats_v1(options) if isinstance(options, PageOptionsBodyV1) else _formats(options))
    for number, one in enumerate(formats):
        if (schema := one.get("schema")) is not None:
            require_schema(schema, *path, "formats", number, "schema", version=version)
    uses_headers = bool(options.actions or options.headers)
    timeout = options.timeout or _default_timeout(formats, options.proxy)
    wait_for = options.wait_for or 0
    if 2 * wait_for > timeout:
        rule = f"waitFor: at most half of the timeout, which is {timeout} ms"
        raise refusal([custom_issue(rule, *path, "waitFor")], version=version)
    return ScrapePlan(
        url=url,
        version=version,
        formats=formats,
        only_main_content=options.only_main_content is not False,
        include_tags=tuple(options.include_tags or ()),
        exclude_tags=tuple(options.exclude_tags or ()),
        remove_base64_images=options.remove_base64_images is not False,
        headers=dict(options.headers or {}),
        mobile=options.mobile is True,
        block_ads=options.block_ads is not False,
        country=options.location.country if options.location else "US",
        languages=tuple(options.location.languages) if options.location else (),
        wait_for=wait_for,
        timeout=min(timeout, LONGEST_TIMEOUT),
        actions=tuple(action.wire() for action in options.actions or ()),
        store_in_cache=options.store_in_cache is not False and not uses_headers,
        zero_data_retention=unkept,
        threat_protection=threat_protection(options.threat_protection, policy),
        diff_as_text=_diff_as_text(policy, version, origin),
        without_effect=tuple(_without_effect(options)),
        **_of_version(options, uses_headers=uses_headers),
    )


def _of_version(options: PageOptionsBody | PageOptionsBodyV1, *, uses_headers: bool) -> Json:
    """Return the fields of a plan that only one version has, or with another default."""
    if isinstance(options, PageOptionsBodyV1):
        return {
            "proxy": options.proxy or "basic",
            "max_age": min(options.max_age, _LONGEST_AGE),
            "skip_tls_verification": options.skip_tls_verification,
            "parsers": _PDF if options.parse_pdf else (),
        }
    skips_tls = options.skip_tls_verification
    return {
        "proxy": options.proxy or "auto",
        "max_age": _TWO_DAYS if options.max_age is None else min(options.max_age, _LONGEST_AGE),
        "min_age": None if options.min_age is None else min(options.min_age, _LONGEST_AGE),
        "skip_tls_verification": not uses_headers if skips_tls is None else skips_tls,
        "only_clean_content": options.only_clean_content is True,
        "lockdown": options.lockdown is True,
        "redact_pii": options.redact_pii is True,
        "parsers": _PDF if options.parsers is None else tuple(_as_object(one) for one in options.parsers),
    }


def _formats(options: PageOptionsBody) -> Iterator[Json]:
    """Yield the formats of version 2 as objects, each once."""
    seen: list[Json] = []
    for one in options.formats or ("markdown",):
        format_ = _as_object(one)
        if format_ not in seen:
            seen.append(format_)
            yield format_


def _formats_v1(options: PageOptionsBodyV1) -> Iterator[Json]:
    """Yield the formats of version 1 in the form of version 2; `extract` keeps its name, for the answer's key."""
    own = {
        "json": options.json_options,
        "extract": options.extract,
        "changeTracking": options.change_tracking_options,
    }
    for name in dict.fromkeys(options.formats):
        if name == "screenshot@fullPage":
            yield {"type": "screenshot", "fullPage": True}
        else:
            extra = own.get(name)
            yield {"type": name, **({} if extra is None else extra.wire())}


def _as_object(option: object) -> Json:
    return option.wire() if isinstance(option, Tagged) else {"type": option}


def require_schema(schema: Json, *path: str | int, version: Version = 2) -> None:
    """Refuse with status 400 what is not a JSON Schema."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except (jsonschema.SchemaError, RecursionError, ValueError) as exc:
        why = getattr(exc, "message", None) or "it is nested too deeply"
        rule = f"Invalid JSON schema: {str(why)[:200]}"
        raise refusal([custom_issue(rule, *path)], version=version) from None


def _default_timeout(formats: Sequence[Json], proxy: str | None) -> int:
    """Return the default time-out of version 2; that of version 1 is in its model."""
    if proxy in ("stealth", "enhanced"):
        return _TIMEOUT_OF_PROXY
    slow = any(one["type"] in ("json", "deterministicJson", "changeTracking") for one in formats)
    return _TIMEOUT_OF_EXTRACTION if slow else _TIMEOUT


def threat_protection(override: ThreatProtection | None, policy: RequestPolicy) -> Json | None:
    """Return the request's policy, which overrides the organisation's. Raises CallRefused 403 if it may not."""
    if override is None:
        return None
    if policy.threat_protection == "off":
        raise CallRefused(403, "Threat protection is not enabled for this team: start with --threat-protection on")
    if policy.threat_protection == "mandatory" and override.mode == "off":
        raise CallRefused(403, "Threat protection is mandatory for this team: mode cannot be off")
    return override.wire()


def _diff_as_text(policy: RequestPolicy, version: Version, origin: object) -> bool:
    """Return whether `changeTracking.diff` is a text: SDKs need an object, the interface of version 1 says text."""
    if policy.diff == "auto":
        return version == 1 and not (isinstance(origin, str) and "-sdk" in origin)
    return policy.diff == "string"


def _without_effect(options: PageOptionsBody | PageOptionsBodyV1) -> Iterator[str]:
    """Yield the wire names of options that differ from their default and have no effect here."""
    if options.mobile:
        yield "mobile"
    if options.block_ads is False:
        yield "blockAds"
    if options.proxy in ("stealth", "enhanced"):
        yield "proxy"
    if options.wait_for:
        yield "waitFor"
    if options.location is not None and options.location.country != "US":
        yield "location.country"
    names: tuple[str, ...] = _SDK_ONLY
    if isinstance(options, PageOptionsBodyV1):
        names += _SDK_ONLY_V1
        if options.change_tracking_options is not None and "changeTracking" not in options.formats:
            yield "changeTrackingOptions"
    else:
        names += ("profile", "audit_metadata")
    fields = type(options).model_fields
    for name in names:
        if name in fields and getattr(options, name):
            yield str(fields[name].alias)


_NOT_OF_A_FILE = ("rawBase64", "changeTracking", "screenshot", "branding", "audio", "video")
"""Formats that a file cannot have."""


class UploadRequestBody(Request, SenderFields):
    """The body of POST /v2/parse/upload-url."""

    filename: Annotated[str, Field(min_length=1, max_length=512)]
    content_type: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    declared_size_bytes: Annotated[StrictInt, Field(ge=1, le=MAX_BYTES)] | None = None


class ParseOptionsBody(PageOptionsBody):
    """The part `options` of POST /v2/parse. SDKs put all options of a page into it."""

    zero_data_retention: StrictBool | None = None


def read_parse_options(body: Json, policy: RequestPolicy = DEFAULT_POLICY) -> ScrapePlan:
    """Return the plan, without URL, for a file. CallRefused is the service's 400, or 403.

    Options that only a page can have are refused with the code PARSE_UNSUPPORTED_OPTIONS. Those of the cache
    have no effect, because a file is read each time.
    """
    read = read_body(ParseOptionsBody, body, policy)
    if found := _unsupported(read):
        text = f"Files cannot be read with these options: {', '.join(found)}"
        raise CallRefused(400, text, code="PARSE_UNSUPPORTED_OPTIONS")
    plan = plan_of(read, policy, origin=read.origin, unkept=read.zero_data_retention is True)
    ignored = ("headers",) if plan.headers else ()
    return replace(
        plan,
        headers={},
        max_age=0,
        min_age=None,
        lockdown=False,
        store_in_cache=False,
        without_effect=(*plan.without_effect, *ignored),
    )


def read_upload_request(body: Json, policy: RequestPolicy = DEFAULT_POLICY) -> UploadRequestBody:
    """Return what is known of a file before it arrives. CallRefused is the service's 400."""
    return read_body(UploadRequestBody, body, policy)


def _unsupported(options: ParseOptionsBody) -> list[str]:
    """Return the wire names of options that a file cannot have."""
    given = {
        "actions": options.actions,
        "waitFor": options.wait_for,
        "location": options.location,
        "mobile": options.mobile,
        "proxy": options.proxy not in (None, "auto", "basic"),
    }
    formats = [f"formats: {name}" for name in dict.fromkeys(options.format_names) if name in _NOT_OF_A_FILE]
    return [name for name, value in given.items() if value] + formats
