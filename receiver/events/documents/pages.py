"""A scraped page: its document, metadata, results of actions, and how it changed."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from receiver.events.documents.diffs import Diff
from receiver.events.documents.shape import Items, Moment, Number, OrEmpty, ServiceModel, Texts


class JavascriptReturn(ServiceModel):
    """What one executeJavascript action returned (interface specification, section Scrape response)."""

    repr_fields = ("type",)

    type: str | None = None
    value: Any = None


class ActionScrape(ServiceModel):
    """The page as one scrape action saw it (interface specification, section Scrape response)."""

    repr_fields = ("url",)

    url: str | None = None
    html: str | None = None


class ActionResults(ServiceModel):
    """What the requested actions gave, each list in the order of its actions."""

    screenshots: Items[str] = Field(default_factory=list)
    """URLs; they expire after 24 hours."""
    scrapes: Items[ActionScrape] = Field(default_factory=list)
    javascript_returns: Items[JavascriptReturn] = Field(default_factory=list)
    pdfs: Items[str] = Field(default_factory=list)


def _text_as_diff(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


class ChangeTracking(ServiceModel):
    """How a page compares with its earlier scrape."""

    repr_fields = ("change_status", "visibility", "previous_scrape_at")

    previous_scrape_at: Moment | None = None
    """None when there was no earlier scrape."""
    change_status: str | None = None
    """`new`, `same`, `changed` or `removed`."""
    visibility: str | None = None
    """`visible` (found through links or the sitemap) or `hidden` (remembered from earlier crawls)."""
    diff: Annotated[Diff | None, BeforeValidator(_text_as_diff)] = None
    """Only in mode git-diff. The service documents a plain string too; it is read as the diff's text."""
    json_: Any = Field(None, alias="json")
    """Only in mode json: the extracted keys with their values before and now."""

    @property
    def diff_text(self) -> str | None:
        """The unified diff, None when there is none."""
        return self.diff.text if self.diff else None


class DocumentMetadata(ServiceModel):
    """What is known about a page.

    Beside these fields there is one key per meta tag of the page, in `model_extra`: a text or a list of them.
    """

    repr_fields = ("source_url", "status_code")
    names_keys_freely = True

    title: Texts | None = None
    description: Texts | None = None
    language: Texts | None = None
    keywords: Texts | None = None
    og_locale_alternate: Items[str] = Field(default_factory=list)
    source_url: str | None = Field(None, alias="sourceURL")
    """The URL that was asked for."""
    url: str | None = None
    """The URL after redirects."""
    scrape_id: str | None = None
    """Only when the scrape succeeded."""
    status_code: StrictInt | None = None
    """The page's own HTTP status: a page that answered 404 is a scrape that succeeded."""
    content_type: str | None = None
    error: str | None = None
    """The page's own error text, such as `Not Found`."""
    proxy_used: str | None = None
    """`basic`, `stealth` and others."""
    cache_state: str | None = None
    """`hit` or `miss`."""
    cached_at: Moment | None = None
    credits_used: Number | None = None
    num_pages: StrictInt | None = None
    """PDF: how many pages were parsed."""
    total_pages: StrictInt | None = None
    """PDF: how many pages it has. More than `num_pages` means that the result was cut short."""
    concurrency_limited: StrictBool | None = None
    concurrency_queue_duration_ms: Number | None = None
    timezone: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether a PDF has more pages than were parsed."""
        return self.num_pages is not None and self.total_pages is not None and self.total_pages > self.num_pages


class Document(ServiceModel):
    """One scraped page: every field is there only when its format was asked for.

    The page of an error event has nothing but `metadata.source_url`.
    """

    repr_fields = ("url",)

    markdown: str | None = None
    """With PDF parsing off, a whole PDF in base64."""
    html: str | None = None
    """Cleaned HTML."""
    raw_html: str | None = None
    """The HTML as the page sent it."""
    summary: str | None = None
    answer: str | None = None
    highlights: str | None = None
    links: Items[str] = Field(default_factory=list)
    images: Items[str] = Field(default_factory=list)
    screenshot: str | None = None
    """A URL that expires after 24 hours; the service's documents also speak of base64."""
    audio: str | None = None
    video: str | None = None
    json_: Any = Field(None, alias="json")
    """Structured extraction. Version 1 names it `extract` or `llm_extraction`; see `extracted`."""
    extract: Any = None
    llm_extraction: Any = Field(None, alias="llm_extraction")
    actions: ActionResults | None = None
    change_tracking: ChangeTracking | None = None
    pages: Any = None
    blocks: Any = None
    branding: Any = None
    product: Any = None
    menu: Any = None
    warning: str | None = None
    metadata: OrEmpty[DocumentMetadata] = Field(default_factory=DocumentMetadata)

    @property
    def url(self) -> str | None:
        """The URL that was asked for, else the one after redirects."""
        return self.metadata.source_url or self.metadata.url

    @property
    def extracted(self) -> Any:
        """The structured extraction under whichever of its three names it came, None without one."""
        found = (self.json_, self.extract, self.llm_extraction)
        return next((value for value in found if value is not None), None)


class LegacyDocument(Document):
    """A page inside the completed event of a v0 job, which carries its results."""

    content: str | None = None
    """The page as plain text."""
    source: str | None = None


def _flatten_legacy(value: object) -> object:
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), Mapping):
        return value
    return {key: item for key, item in value.items() if key != "content"} | dict(value["content"])


LegacyDocuments = Items[Annotated[LegacyDocument, BeforeValidator(_flatten_legacy)]]
"""Pages of a v0 job. Some senders put a page below `content` and its URL beside it: both forms read alike."""
