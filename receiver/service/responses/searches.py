"""Maps and searches in the service's answers (version 2; the service's SDK and public behaviour)."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictInt

from receiver.events.documents.pages import Document
from receiver.events.documents.shape import Items, Number, OrEmpty, ServiceModel


def _text_as_link(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class MapLink(ServiceModel):
    """One URL of a site."""

    repr_fields = ("url",)

    url: str | None = None
    """Absolute URL."""
    title: str | None = None
    """The page's title, if the service knows it."""
    description: str | None = None
    """The page's description, if the service knows it."""


class MapResponse(ServiceModel):
    """The URLs of a site."""

    id: str | None = None
    """UUID of the map, if the service gives one."""
    links: Items[Annotated[MapLink, BeforeValidator(_text_as_link)]] = Field(default_factory=list)
    """One item per URL. A plain text is read as a URL without title."""
    warning: str | None = None
    """What the service warns of, such as few results."""


class WebHit(ServiceModel):
    """A page that a search found."""

    repr_fields = ("url", "title")

    url: str | None = None
    """Absolute URL of the page."""
    title: str | None = None
    """Its title."""
    description: str | None = None
    """What the search engine shows of it."""
    position: StrictInt | None = None
    """Its place among the hits, from 1."""
    category: str | None = None
    """The category that was asked for and that it belongs to, such as `github`."""

    @property
    def document(self) -> Document | None:
        """The page, if the request had `scrape_options`; its fields stand in the hit on the wire."""
        found: Mapping[str, Any] = self.model_extra or {}
        return Document.read(found) if "metadata" in found else None


class NewsHit(ServiceModel):
    """A news article that a search found."""

    repr_fields = ("url", "title")

    url: str | None = None
    """Absolute URL of the article."""
    title: str | None = None
    """Its title."""
    snippet: str | None = None
    """A passage of it."""
    date: str | None = None
    """When it appeared, in the words of the search engine."""
    image_url: str | None = None
    """URL of its picture."""
    position: StrictInt | None = None
    """Its place among the hits, from 1."""


class ImageHit(ServiceModel):
    """A picture that a search found."""

    repr_fields = ("image_url", "title")

    url: str | None = None
    """Absolute URL of the page that shows it."""
    title: str | None = None
    """Its title."""
    image_url: str | None = None
    """URL of the picture."""
    image_width: StrictInt | None = None
    """Its width in pixels."""
    image_height: StrictInt | None = None
    """Its height in pixels."""
    position: StrictInt | None = None
    """Its place among the hits, from 1."""


class SearchHits(ServiceModel):
    """The hits of a search, by their source. Only sources that were asked for have some."""

    web: Items[WebHit] = Field(default_factory=list)
    """Pages."""
    news: Items[NewsHit] = Field(default_factory=list)
    """News articles."""
    images: Items[ImageHit] = Field(default_factory=list)
    """Pictures."""


class SearchResponse(ServiceModel):
    """The answer to a search."""

    repr_fields = ("id", "credits_used")

    id: str | None = None
    """UUID of the search."""
    data: OrEmpty[SearchHits] = Field(default_factory=SearchHits)
    """The hits."""
    credits_used: Number | None = None
    """Credits that the search cost, with the pages that were scraped for it."""
    warning: str | None = None
    """What the service warns of, for people."""
