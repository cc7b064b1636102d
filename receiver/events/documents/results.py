"""What extract jobs and agents found."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import JsonObject, Number, ServiceModel


class ExtractResult(ServiceModel):
    """What an extract job found."""

    repr_fields = ("extract_id", "success")

    success: StrictBool | None = None
    data: Any = None
    """The extraction: any JSON value, in the form of the schema that was asked for."""
    extract_id: str | None = None
    warning: str | None = None
    error: str | None = None
    llm_usage: Number | None = None
    total_urls_scraped: StrictInt | None = None
    sources: JsonObject = Field(default_factory=dict)
    """JSON path of a value to the URLs it was found at."""
    tokens_billed: Number | None = None
    credits_billed: Number | None = None
    url_trace: Any = None


class AgentStep(ServiceModel):
    """One action of an agent."""

    repr_fields = ("action", "credits_used")

    credits_used: Number | None = None
    """A running estimate: only the last event of the job has the final number."""
    action: str | None = None
    """A free text: `scrape` and `mcp__tools__scrape` both occur."""
    input: JsonObject = Field(default_factory=dict)


class AgentResult(ServiceModel):
    """How an agent's job ended."""

    repr_fields = ("credits_used",)

    credits_used: Number | None = None
    data: Any = None
    """What it found; only when it completed."""
