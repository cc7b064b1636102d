"""Results of extract jobs and agents."""

from typing import Any

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import JsonObject, Number, ServiceModel


class ExtractResult(ServiceModel):
    """The result of an extract job."""

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
    """JSON path of a value to the URLs where it was found."""
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
    """Credits so far, an estimate. Only the last event of the job has the final number."""
    action: str | None = None
    """Name of the action, a free text such as `scrape` or `mcp__tools__scrape`."""
    input: JsonObject = Field(default_factory=dict)
    """What the action was called with; its keys depend on the action."""


class AgentResult(ServiceModel):
    """Cost and result of an agent's job."""

    repr_fields = ("credits_used",)

    credits_used: Number | None = None
    """Credits that the whole job cost."""
    data: Any = None
    """The result, any JSON value; only if the job completed."""
