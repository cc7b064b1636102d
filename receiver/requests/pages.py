"""How pages and files are scraped: the options of all requests that scrape.

The fields of version 2 are those of a monitor target's `scrapeOptions` (interface specification, section Monitor).
Their defaults differ by version and change, so requests have none: what is not set is left to the service.
"""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, StrictInt, model_validator

from receiver.requests.actions import Action, WaitAction
from receiver.requests.base import HttpHeaders, Many, Milliseconds, Request
from receiver.requests.fields import CommonPageFields, ContentFields, FileFields, PageFields
from receiver.requests.formats import Format, Parser, name_of
from receiver.requests.options import AuditMetadata, Location, Profile, ThreatProtection

Proxy = Literal["basic", "stealth", "enhanced", "auto"]
_LONGEST_WAIT = 60_000
_SELECTOR_WAIT = 1_000
"""Milliseconds that the service counts for a wait for an element (its public behaviour)."""


class ContentRequest(Request, ContentFields):
    """What is taken from a page or a file. Times are in milliseconds."""

    exclude_tags: Many[str] | None = None
    include_tags: Many[str] | None = None
    threat_protection: ThreatProtection | None = None
    timeout: Annotated[StrictInt, Field(ge=1000)] | None = None


class PageRequest(ContentRequest, CommonPageFields):
    """How a page is scraped. Times are in milliseconds."""

    actions: Annotated[Many[Action], Field(max_length=50)] | None = None
    headers: HttpHeaders | None = Field(default=None, repr=False)
    location: Location | None = None
    max_age: Milliseconds | None = None
    proxy: Proxy | None = None
    wait_for: Annotated[StrictInt, Field(ge=0, le=_LONGEST_WAIT)] | None = None

    @model_validator(mode="after")
    def _check_waits(self) -> Self:
        if self.timeout is not None and 2 * (self.wait_for or 0) > self.timeout:
            raise ValueError(f"waitFor: at most half of the timeout, which is {self.timeout} ms")
        if self.waits_in_all > _LONGEST_WAIT:
            raise ValueError(f"waitFor and wait actions: at most {_LONGEST_WAIT:,} ms in all")
        return self

    @property
    def waits_in_all(self) -> int:
        """Milliseconds of `wait_for` and all wait actions; one that waits for an element counts as a second."""
        waits = (action for action in self.actions or () if isinstance(action, WaitAction))
        return (self.wait_for or 0) + sum(action.milliseconds or _SELECTOR_WAIT for action in waits)


class FileOptions(ContentRequest, FileFields):
    """What version 2 takes from a page or a file. The service decides about options that are not given."""

    audit_metadata: AuditMetadata | None = None
    formats: Many[Format] | None = None
    parsers: Many[Parser] | None = None

    @model_validator(mode="after")
    def _check_formats(self) -> Self:
        names = self.format_names
        if names.count("screenshot") > 1:
            raise ValueError("formats: give only one screenshot")
        if "json" in names and "deterministicJson" in names:
            raise ValueError("formats: give one of json and deterministicJson")
        if "rawBase64" in names and len(names) > 1:
            raise ValueError("formats: rawBase64 stands alone")
        return self

    @property
    def format_names(self) -> tuple[str, ...]:
        """The names of all formats that were asked for."""
        return tuple(name_of(one) for one in self.formats or ())

    def refuse_formats(self, *names: str, by: str) -> None:
        """Raise a ValueError if one of these formats was asked for."""
        if found := [name for name in names if name in self.format_names]:
            raise ValueError(f"formats: {by} takes no {found[0]}")


class ScrapeOptions(PageRequest, FileOptions, PageFields):
    """How each page of a job is scraped. The service decides about options that are not given."""

    min_age: Milliseconds | None = None
    profile: Profile | None = None


Scraped = TypeVar("Scraped", bound=FileOptions)


def require_markdown(options: Scraped) -> Scraped:
    """Return the options; raise a ValueError if `changeTracking` lacks the `markdown` that it compares.

    Monitors do not need this check: the service adds `markdown` to their formats.
    """
    if "changeTracking" in options.format_names and "markdown" not in options.format_names:
        raise ValueError("formats: changeTracking needs markdown beside it")
    return options


JobScrapeOptions = Annotated[ScrapeOptions, AfterValidator(require_markdown)]
"""The scrape options of a job."""
