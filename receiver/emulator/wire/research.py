"""Extractions and agents: from the body to one plan with sources, goal and limits."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, JsonValue, StrictBool, model_validator

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.extraction.extractor import DEFAULT_PROMPT
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.scrape import (
    AnyLocation,
    PageOptionsBody,
    PageOptionsBodyV1,
    SenderFields,
    plan_of,
    require_schema,
)
from receiver.emulator.wire.urls import WebhookBody, split_urls, target_of
from receiver.requests.base import Many
from receiver.requests.jobs import AgentRequest, ExtractAgent, ExtractRequest
from receiver.requests.webhooks import Operation

Schema = Annotated[dict[str, JsonValue] | None, Field(alias="schema")]


class ExtractingAgent(ExtractAgent, extra="allow"):
    """An agent that helps an extraction. It changes nothing here."""


class ExtractFields(ExtractRequest, SenderFields):
    """The fields of both versions. URLs are checked one by one."""

    urls: Annotated[Many[str], Field(max_length=10)] | None = None
    schema_: Schema = None
    webhook: WebhookBody | None = None
    agent: ExtractingAgent | None = None

    @model_validator(mode="after")
    def _says_where_or_what(self) -> Self:
        if not self.urls and not self.prompt:
            raise ValueError('Either "urls" or "prompt" must be provided')
        return self


class ExtractBody(ExtractFields):
    """The body of POST /v2/extract."""

    scrape_options: PageOptionsBody | None = None


class ExtractBodyV1(ExtractFields):
    """The body of POST /v1/extract."""

    scrape_options: PageOptionsBodyV1 | None = None  # type: ignore[assignment]  # version 1 has its own
    limit: JsonValue = None
    """The most pages; here ten URLs are the limit."""
    ignore_sitemap: StrictBool | None = None
    """For URLs that end in `/*`."""
    include_subdomains: StrictBool | None = None
    """For URLs that end in `/*`."""
    url_trace: JsonValue = None
    """Without effect here: no answer says how pages were chosen."""
    timeout: JsonValue = None
    """Milliseconds for the whole job; each page has its own time-out here."""
    zero_data_retention: StrictBool | None = None
    show_llm_usage: Annotated[JsonValue, Field(alias="showLLMUsage")] = None
    """Without effect here: no answer says what a model used."""


class AgentBody(AgentRequest, SenderFields):
    """The body of POST /v2/agent. URLs are checked one by one."""

    urls: Annotated[Many[str], Field(max_length=100)] | None = None
    schema_: Schema = None
    webhook: WebhookBody | None = None
    effort: Literal["low", "medium", "high"] | None = None
    """Of a model; the emulator's rules have no such choice."""
    mode: Literal["extract", "chat"] | None = None
    """Whether the result is data or a text; here it is data."""
    exchange: JsonValue = None
    """Tools of other providers. The emulator has none."""
    location: AnyLocation | None = None
    """The place that all pages are requested from (the service's SDK 4.55 sends its country)."""
    zero_data_retention: StrictBool | None = None
    """Whether nothing of the pages is kept (the service's SDK 4.55 sends it)."""


Json = dict[str, Any]
Version = Literal[1, 2]

WILDCARD = "/*"
"""The end of a URL that means all pages below it."""
MAX_PAGES = 20
"""The most pages of one extraction or agent."""
MAX_CREDITS = 2_500
"""The most credits of an agent without a limit of its own."""
_MODEL = "spark-1-mini"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchPlan:
    """Pages are found and scraped, and one result is extracted from all of them."""

    kind: Literal["extract", "agent"]
    """The family of its events."""
    version: Version = 2
    urls: tuple[str, ...] = ()
    """Where it begins; one that ends in `/*` means the pages below it."""
    invalid_urls: tuple[str, ...] | None = None
    """What was left out, for the answer's `invalidURLs`; None when the answer has no such key."""
    prompt: str | None = None
    schema: Json | None = None
    system_prompt: str | None = None
    searches: bool = False
    """Further pages may be searched for."""
    follows_links: bool = False
    """Links on the pages are followed as long as something is missing."""
    external: bool = False
    show_sources: bool = False
    """The result names the source of each value."""
    max_pages: int = MAX_PAGES
    max_credits: int | None = None
    """The most credits; None for no limit of its own."""
    model: str | None = None
    thread_id: str | None = None
    """UUID of the conversation that the job continues."""
    webhook: WebhookTarget | None = None
    scrape: ScrapePlan = field(default_factory=lambda: ScrapePlan(url=""))
    """How each page is scraped, without its URL. It has the formats json and markdown."""
    without_effect: tuple[str, ...] = ()
    """Wire names of options that change nothing here."""


def read_extract(body: Json, version: Version, policy: RequestPolicy = DEFAULT_POLICY) -> ResearchPlan:
    """Return the plan of POST /v1/extract or /v2/extract. CallRefused is the service's 400, or 403."""
    model: type[ExtractBodyV1 | ExtractBody] = ExtractBodyV1 if version == 1 else ExtractBody
    read = read_body(model, body, policy, version=version)
    if read.schema_ is not None:
        require_schema(read.schema_, "schema", version=version)
    ignores = version == 2 if read.ignore_invalid_urls is None else read.ignore_invalid_urls
    urls, invalid = _urls(list(read.urls or ()), policy, version, ignores=ignores)
    if not urls and not read.prompt:
        raise CallRefused(400, "No valid URLs provided", code="BAD_REQUEST")
    options: PageOptionsBody | PageOptionsBodyV1 | None = read.scrape_options
    if options is None:
        options = PageOptionsBodyV1() if version == 1 else PageOptionsBody()
    if read.threat_protection is not None:
        options = options.model_copy(update={"threat_protection": read.threat_protection})
    unkept = isinstance(read, ExtractBodyV1) and read.zero_data_retention is True
    plan = plan_of(options, policy, path=("scrapeOptions",), origin=read.origin, unkept=unkept)
    return ResearchPlan(
        kind="extract",
        version=version,
        urls=urls,
        invalid_urls=invalid if ignores else None,
        prompt=read.prompt,
        schema=read.schema_,
        system_prompt=read.system_prompt,
        searches=read.enable_web_search is True or not urls,
        external=read.allow_external_links is True,
        show_sources=read.show_sources is True,
        webhook=target_of(read.webhook, Operation.EXTRACT),
        scrape=_extracting(plan, read.schema_, read.prompt, read.system_prompt),
        without_effect=("agent",) if read.agent is not None else (),
    )


def read_agent(body: Json, policy: RequestPolicy = DEFAULT_POLICY) -> ResearchPlan:
    """Return the plan of POST /v2/agent. CallRefused is the service's 400, or 403."""
    read = read_body(AgentBody, body, policy)
    if read.schema_ is not None:
        require_schema(read.schema_, "schema")
    urls, _ = _urls(list(read.urls or ()), policy, 2, ignores=False)
    strict = read.strict_constrain_to_urls is True
    if strict and not urls:
        rule = "strictConstrainToURLs: it needs urls"
        raise refusal([custom_issue(rule, "strictConstrainToURLs")])
    # Links to what is wanted are often in menus and footers.
    options = PageOptionsBody(
        only_main_content=False, threat_protection=read.threat_protection, location=read.location
    )
    plan = plan_of(options, policy, origin=read.origin, unkept=read.zero_data_retention is True)
    return ResearchPlan(
        kind="agent",
        urls=urls,
        prompt=read.prompt,
        schema=read.schema_,
        searches=not strict,
        follows_links=not strict,
        max_credits=read.max_credits or MAX_CREDITS,
        model=read.model or _MODEL,
        thread_id=read.thread_id,
        webhook=target_of(read.webhook, Operation.AGENT),
        scrape=_extracting(plan, read.schema_, read.prompt, None),
        without_effect=tuple(name for name in ("effort", "mode", "exchange") if getattr(read, name) is not None),
    )


def _urls(
    texts: list[str], policy: RequestPolicy, version: Version, *, ignores: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the URLs and the invalid ones. Raises CallRefused for the latter unless they are to be ignored."""
    valid, reasons = split_urls(texts, policy)
    if reasons and not ignores:
        raise refusal([custom_issue(why, "urls", place) for place, why in reasons.items()], version=version)
    return tuple(dict.fromkeys(valid)), tuple(texts[place] for place in reasons)


def _extracting(plan: ScrapePlan, schema: Json | None, prompt: str | None, system: str | None) -> ScrapePlan:
    """Return the plan of the pages for a result; its formats are ours, whatever the options say."""
    if schema is None and prompt is None:
        prompt = DEFAULT_PROMPT
    wanted = {"schema": schema, "prompt": prompt, "systemPrompt": system}
    format_ = {"type": "json", **{name: value for name, value in wanted.items() if value is not None}}
    timeout = max(plan.timeout, 60_000)
    return replace(plan, version=2, formats=({"type": "markdown"}, format_), timeout=timeout)


def is_wildcard(url: str) -> bool:
    """Return whether a URL means all pages below it."""
    return urlsplit(url).path.endswith(WILDCARD)


def wildcard_root(url: str) -> str:
    """Return the URL above the pages of a wildcard: `https://a.test/docs/` for `https://a.test/docs/*`."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("*"), "", ""))
