"""What extract jobs and agents found."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import JsonObject, Number, ServiceModel


class ExtractResult(ServiceModel):
    """What an extract job found."""

    repr_fields = ("extract_id", "success")

    success: StrictBool | None = None
    """Whether the extraction succeeded."""
    data: Any = None
    """The extraction: any JSON value, in the form of the schema that was asked for."""
    extract_id: str | None = None
    """UUID of the job."""
    warning: str | None = None
    """What the service warns of, for people."""
    error: str | None = None
    """Why the extraction failed, for people."""
    llm_usage: Number | None = None
    """How much of a language model the extraction used. The service does not document the unit."""
    total_urls_scraped: StrictInt | None = None
    """How many pages were scraped for it."""
    sources: JsonObject = Field(default_factory=dict)
    """JSON path of a value to the URLs it was found at."""
    tokens_billed: Number | None = None
    """Tokens that it cost."""
    credits_billed: Number | None = None
    """Credits that it cost."""
    url_trace: Any = None
    """How the pages were chosen: any JSON, mostly a list."""


class AgentStep(ServiceModel):
    """One action of an agent."""

    repr_fields = ("action", "credits_used")

    credits_used: Number | None = None
    """A running estimate: only the last event of the job has the final number."""
    action: str | None = None
    """A free text: `scrape` and `mcp__tools__scrape` both occur."""
    input: JsonObject = Field(default_factory=dict)
    """What the action was called with; its keys depend on the action."""


class AgentResult(ServiceModel):
    """How an agent's job ended."""

    repr_fields = ("credits_used",)

    credits_used: Number | None = None
    """Credits that the whole job cost."""
    data: Any = None
    """What it found; only when it completed."""
