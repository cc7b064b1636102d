"""A scraped page: its document, metadata, results of actions, and how it changed."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from receiver.events.documents.diffs import Diff
from receiver.events.documents.shape import Items, Moment, Number, OrEmpty, ServiceModel, Texts


class JavascriptReturn(ServiceModel):
    """The result of one executeJavascript action (interface specification, section Scrape response)."""

    repr_fields = ("type",)

    type: str | None = None
    """The JavaScript type of the value, such as `string`."""
    value: Any = None
    """The value: any JSON."""


class ActionScrape(ServiceModel):
    """The page at one scrape action (interface specification, section Scrape response)."""

    repr_fields = ("url",)

    url: str | None = None
    """Absolute URL of the page at that moment."""
    html: str | None = None
    """The page's HTML at that moment."""


class ActionResults(ServiceModel):
    """Results of the requested actions, each list in the order of its actions."""

    screenshots: Items[str] = Field(default_factory=list)
    """URLs of screenshots, one per `screenshot` action; they expire after 24 hours."""
    scrapes: Items[ActionScrape] = Field(default_factory=list)
    """URL and HTML of the page, one per `scrape` action."""
    javascript_returns: Items[JavascriptReturn] = Field(default_factory=list)
    """One per `executeJavascript` action."""
    pdfs: Items[str] = Field(default_factory=list)
    """Links to the PDFs, one per `pdf` action."""


def text_as_diff(value: object) -> object:
    """Read a text as a diff that has only its text."""
    return {"text": value} if isinstance(value, str) else value


class ChangeTracking(ServiceModel):
    """How a page compares with its earlier scrape."""

    repr_fields = ("change_status", "visibility", "previous_scrape_at")

    previous_scrape_at: Moment | None = None
    """When the page was scraped before, in UTC; None without an earlier scrape."""
    change_status: str | None = None
    """`new`, `same`, `changed` or `removed`."""
    visibility: str | None = None
    """`visible` (found through links or the sitemap) or `hidden` (remembered from earlier crawls)."""
    diff: Annotated[Diff | None, BeforeValidator(text_as_diff)] = None
    """Only in mode git-diff. The service documents a plain string too; it is read as the diff's text."""
    json_: Annotated[Any, Field(alias="json")] = None
    """Only in mode json: the extracted keys with their values before and now."""

    @property
    def diff_text(self) -> str | None:
        """The unified diff, None when there is none."""
        return self.diff.text if self.diff else None


class DocumentMetadata(ServiceModel):
    """Facts about a page.

    `model_extra` also has one key per meta tag of the page: a text or a list of texts.
    """

    repr_fields = ("source_url", "status_code")
    names_keys_freely = True

    title: Texts | None = None
    """The page's title: its `title` element or meta tag."""
    description: Texts | None = None
    """The page's own description, from its meta tags."""
    language: Texts | None = None
    """The page's language as the page names it, such as `en` or `pt-BR`."""
    keywords: Texts | None = None
    """The page's own keywords: one text, mostly separated by commas, or a list."""
    og_locale_alternate: Items[str] = Field(default_factory=list)
    """The other locales that the page says it exists in."""
    source_url: Annotated[str | None, Field(alias="sourceURL")] = None
    """The URL that was asked for."""
    url: str | None = None
    """The URL after redirects."""
    scrape_id: str | None = None
    """UUID of the scrape; None if it failed."""
    status_code: StrictInt | None = None
    """The page's own HTTP status. The scrape of a page that answered 404 succeeds."""
    content_type: str | None = None
    """The page's HTTP `Content-Type`."""
    error: str | None = None
    """The page's own error text, such as `Not Found`."""
    proxy_used: str | None = None
    """The proxy that reached the page: `basic`, `stealth` and others."""
    cache_state: str | None = None
    """`hit` if the page came from the service's cache, else `miss`."""
    cached_at: Moment | None = None
    """When the cached copy was made, in UTC; only with a `cache_state` of `hit`."""
    credits_used: Number | None = None
    """Credits that this page cost."""
    num_pages: StrictInt | None = None
    """PDF: how many pages were parsed."""
    total_pages: StrictInt | None = None
    """PDF: how many pages it has. A value above `num_pages` means that the result is truncated."""
    concurrency_limited: StrictBool | None = None
    """Whether the scrape had to wait for the account's limit of concurrent scrapes."""
    concurrency_queue_duration_ms: Number | None = None
    """Milliseconds that it waited for that limit."""
    timezone: str | None = None
    """Time zone that the browser had, such as `America/New_York`."""

    @property
    def truncated(self) -> bool:
        """Whether a PDF has more pages than were parsed."""
        return self.num_pages is not None and self.total_pages is not None and self.total_pages > self.num_pages


class Document(ServiceModel):
    """One scraped page. A field is filled only if its format was asked for.

    The page of an error event has only `metadata.source_url`.
    """

    repr_fields = ("url",)

    markdown: str | None = None
    """The page as Markdown; without PDF parsing, a whole PDF in base64."""
    html: str | None = None
    """Cleaned HTML."""
    raw_html: str | None = None
    """The HTML as the page sent it."""
    summary: str | None = None
    """A short summary of the page, written by a language model."""
    answer: str | None = None
    """The answer to a question that the request asked of the page."""
    highlights: str | None = None
    """Passages of the page that fit a query of the request."""
    links: Items[str] = Field(default_factory=list)
    """URLs that the page links to."""
    images: Items[str] = Field(default_factory=list)
    """URLs of the page's images."""
    screenshot: str | None = None
    """A URL that expires after 24 hours; the service's documents also speak of base64."""
    audio: str | None = None
    """The page's audio, as the service gives it: it documents a text and no form."""
    video: str | None = None
    """The page's video, as the service gives it: it documents a text and no form."""
    json_: Annotated[Any, Field(alias="json")] = None
    """Structured extraction. Version 1 names it `extract` or `llm_extraction`; see `extracted`."""
    extract: Any = None
    """Structured extraction under an older name of version 1; see `extracted`."""
    llm_extraction: Annotated[Any, Field(alias="llm_extraction")] = None
    """Structured extraction under the name of the interface specification; see `extracted`."""
    actions: ActionResults | None = None
    """What the requested actions gave; None when none were requested."""
    change_tracking: ChangeTracking | None = None
    """How the page compares with its earlier scrape; only with the format `changeTracking`."""
    pages: Any = None
    """A newer format, as it came: the pages of a PDF one by one."""
    blocks: Any = None
    """A newer format, as it came: the parts of a document."""
    branding: Any = None
    """A newer format, as it came: colours, fonts and logos of the site."""
    product: Any = None
    """A newer format, as it came: the product that the page sells."""
    menu: Any = None
    """A newer format, as it came: a menu of dishes."""
    warning: str | None = None
    """What the service warns of, such as problems with the extraction."""
    metadata: OrEmpty[DocumentMetadata] = Field(default_factory=DocumentMetadata)
    """What is known about the page; empty where the service sent nothing."""

    @property
    def url(self) -> str | None:
        """The URL that was asked for, else the one after redirects."""
        return self.metadata.source_url or self.metadata.url

    @property
    def extracted(self) -> Any:
        """The structured extraction, from any of its three names; None without one."""
        found = (self.json_, self.extract, self.llm_extraction)
        return next((value for value in found if value is not None), None)


class LegacyDocument(Document):
    """A page inside the completed event of a v0 job: such events contain the results."""

    content: str | None = None
    """The page as plain text."""
    source: str | None = None
    """URL of the page, as senders write it that put the page below `content`."""


def _flatten_legacy(value: object) -> object:
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), Mapping):
        return value
    return {key: item for key, item in value.items() if key != "content"} | dict(value["content"])


LegacyDocuments = Items[Annotated[LegacyDocument, BeforeValidator(_flatten_legacy)]]
"""Pages of a v0 job. Some senders put a page below `content` and its URL beside it. Both forms read alike."""
