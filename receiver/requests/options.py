"""Options that several requests share: location, extraction, change tracking, threat protection."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt

from receiver.requests.base import JsonSchema, Many, Request
from receiver.requests.hosts import require_domain, require_host_name, require_top_level_domain


class Location(Request):
    """The place that a page is requested from. The service emulates its language and time zone."""

    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "US"
    """Code of the country, ISO 3166-1 alpha-2."""
    languages: Many[str] = ()
    """Languages in order of preference; without any, those of the country."""


Prompt = Annotated[str, Field(max_length=10_000)]
"""An instruction in plain words (the service's public behaviour)."""


class JsonOptions(Request):
    """What to extract: a schema, a prompt, or both."""

    prompt: Prompt | None = None
    """What to extract, in plain words, at most 10,000 characters; enough without a schema."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The form of the result."""
    system_prompt: Prompt | None = None
    """Instructions that stand before the prompt, at most 10,000 characters."""


class ChangeTrackingOptions(Request):
    """How a page is compared with its earlier scrape."""

    modes: Many[Literal["git-diff", "json"]] = ()
    """`git-diff` compares the text, `json` compares extracted values."""
    prompt: str | None = None
    """For mode `json`: instructions for the extraction. The service has a default."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """For mode `json`: the form of the values that are extracted and compared."""
    tag: str | None = None
    """A page is compared only with earlier scrapes of the same tag."""


class Viewport(Request):
    """Size of the browser's window, in pixels."""

    width: Annotated[StrictInt, Field(ge=1, le=7680)]
    """1 to 7,680."""
    height: Annotated[StrictInt, Field(ge=1, le=4320)]
    """1 to 4,320."""


class ScreenshotOptions(Request):
    """A picture: of the current viewport, or of the full page."""

    full_page: StrictBool = False
    """Whether the whole page is taken, not the viewport alone."""
    quality: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """100 is best."""
    viewport: Viewport | None = None
    """Only in version 2: the size of the window."""


Domains = Annotated[Many[Annotated[str, AfterValidator(require_domain)]], Field(max_length=1000)]
Tlds = Annotated[Many[Annotated[str, AfterValidator(require_top_level_domain)]], Field(max_length=1000)]
HostNames = Many[Annotated[str, AfterValidator(require_host_name)]]


class ThreatProtection(Request):
    """Checks of URLs for this request. Fields that are left out have the organisation's values.

    The service answers 403 if the account does not have this feature, or may not override it.
    """

    blacklist: Domains | None = None
    """Domains that are always blocked: plain or with wildcards, at most 1,000."""
    blocked_tlds: Tlds | None = None
    """Top-level domains that are always blocked: lower case, no leading dot, at most 1,000."""
    failure_policy: Literal["open", "closed"] | None = None
    """Whether a URL is allowed (`open`) or blocked (`closed`) when the classifier cannot be reached."""
    mode: Literal["off", "normal"] | None = None
    """`normal` checks each URL, for 2 credits per URL."""
    risk_score_threshold: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """The score, 0 to 100, from which on a URL is blocked; lower is stricter."""
    whitelist: Domains | None = None
    """Domains that are always allowed, before all other rules, at most 1,000."""


class AuditMetadata(Request):
    """Who asked, for the service's audit log."""

    username: Annotated[str, Field(max_length=1024)]
    """Name of the person or program that asks, at most 1,024 characters."""


class Profile(Request):
    """A browser profile that the service keeps."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the profile, 1 to 128 characters; the same name finds it again."""
    save_changes: StrictBool | None = None
    """Whether cookies and the like of this scrape are saved in the profile."""
