"""The bodies of extractions and agents: the lenient face of the requests."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StrictBool, model_validator

from receiver.requests.base import Many
from receiver.requests.jobs import AgentRequest, ExtractAgent, ExtractRequest
from receiver.service.emulator.wire.scrape_bodies import (
    AnyLocation,
    PageOptionsBody,
    PageOptionsBodyV1,
    SenderFields,
)
from receiver.service.emulator.wire.webhooks import WebhookBody

Schema = Annotated[dict[str, JsonValue] | None, Field(alias="schema")]


class ExtractingAgent(ExtractAgent, extra="allow"):
    """An agent that helps an extraction. It changes nothing here."""


class ExtractFields(ExtractRequest, SenderFields):
    """What both versions have. URLs are checked one by one."""

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
    """How each page is scraped."""
    limit: JsonValue = None
    """The most pages; ten URLs bound it here."""
    ignore_sitemap: StrictBool | None = None
    """Whether sitemaps are left out where a URL ends in `/*`."""
    include_subdomains: StrictBool | None = None
    """Whether subdomains count where a URL ends in `/*`."""
    url_trace: JsonValue = None
    """Whether the answer tells how pages were chosen. It never does here."""
    timeout: JsonValue = None
    """Milliseconds for the whole job; each page has its own time-out here."""
    zero_data_retention: StrictBool | None = None
    """Whether nothing of the pages is kept."""
    show_llm_usage: Annotated[JsonValue, Field(alias="showLLMUsage")] = None
    """Whether the answer tells what a model used. It never does here."""


class AgentBody(AgentRequest, SenderFields):
    """The body of POST /v2/agent. URLs are checked one by one."""

    urls: Annotated[Many[str], Field(max_length=100)] | None = None
    schema_: Schema = None
    webhook: WebhookBody | None = None
    effort: Literal["low", "medium", "high"] | None = None
    """How hard a model thinks; the emulator's rules always do the same."""
    mode: Literal["extract", "chat"] | None = None
    """Whether the result is data or a text; here it is data."""
    exchange: JsonValue = None
    """Tools of others. The emulator has none."""
    location: AnyLocation | None = None
    """The place that all pages are requested from (the service's SDK 4.55 sends its country)."""
    zero_data_retention: StrictBool | None = None
    """Whether nothing of the pages is kept (the service's SDK 4.55 sends it)."""
