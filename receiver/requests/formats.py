"""The formats and the parsers of version 2: names, or objects with options whose `type` is the name.

The service documents only a few of them; the others are those of its own SDK and of its public behaviour.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictInt, Tag, model_validator

from receiver.requests.base import JsonSchema, Many, Request, Tagged, checked_as
from receiver.requests.options import ChangeTrackingOptions, Prompt, ScreenshotOptions

_PlainName = Literal[
    "markdown",
    "html",
    "rawHtml",
    "rawBase64",
    "links",
    "images",
    "summary",
    "branding",
    "product",
    "menu",
    "audio",
    "video",
]
_FormatName = Literal[_PlainName, "screenshot", "changeTracking"]
_NEED_OPTIONS = ("json", "deterministicJson", "attributes", "question", "highlights", "query")


class PlainFormat(Tagged):
    """A format that has no options."""

    type: _PlainName


class JsonFormat(Tagged):
    """Structured data, extracted by a schema, a prompt, or both."""

    type: Literal["json", "deterministicJson"] = "json"
    """`json` asks a language model for each page; `deterministicJson` makes a program once and reuses it."""
    prompt: Prompt | None = None
    """What to extract, in plain words, at most 10,000 characters."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The form of the result."""

    @model_validator(mode="after")
    def _says_what(self) -> "JsonFormat":
        if self.prompt is None and self.schema_ is None:
            raise ValueError(f"{self.type} needs a prompt or a schema")
        return self


class ChangeTrackingFormat(Tagged, ChangeTrackingOptions):
    """A comparison with the page's earlier scrape. It needs the format `markdown` beside it."""

    type: Literal["changeTracking"] = "changeTracking"


class ScreenshotFormat(Tagged, ScreenshotOptions):
    """A picture of the page."""

    type: Literal["screenshot"] = "screenshot"


class AttributeSelector(Request):
    """An attribute of the elements that match a selector."""

    selector: str
    """A CSS selector."""
    attribute: str
    """Name of the attribute, such as `href`."""


class AttributesFormat(Tagged):
    """Values of attributes of the page's elements."""

    type: Literal["attributes"] = "attributes"
    selectors: Many[AttributeSelector]
    """The attributes to return."""


class QuestionFormat(Tagged):
    """The answer to a question about the page."""

    type: Literal["question"] = "question"
    question: Annotated[Prompt, Field(min_length=1)]
    """The question, at most 10,000 characters."""


class HighlightsFormat(Tagged):
    """The passages of the page that fit a query."""

    type: Literal["highlights"] = "highlights"
    query: Annotated[Prompt, Field(min_length=1)]
    """The query, at most 10,000 characters."""


class QueryFormat(Tagged):
    """The older form of `question` and `highlights`."""

    type: Literal["query"] = "query"
    prompt: Prompt
    """The question or query, at most 10,000 characters."""
    mode: Literal["freeform", "directQuote"] | None = None
    """`freeform` answers, `directQuote` quotes the page."""


def _need_no_options(name: str) -> str:
    if name in _NEED_OPTIONS:
        raise ValueError(f'{name} needs options: give an object with "type": "{name}"')
    return name


def _form(value: Any) -> str:
    return "name" if isinstance(value, str) else "options"


_Options = (
    PlainFormat
    | JsonFormat
    | ChangeTrackingFormat
    | ScreenshotFormat
    | AttributesFormat
    | QuestionFormat
    | HighlightsFormat
    | QueryFormat
)
_Name = Annotated[_FormatName, BeforeValidator(_need_no_options), Tag("name")]
_Object = Annotated[_Options, Field(discriminator="type"), Tag("options")]
Format = Annotated[str | Mapping[str, Any] | _Options, checked_as(Annotated[_Name | _Object, Discriminator(_form)])]
"""A name such as `markdown`, or an object with options; in JSON, its `type` says which. A request keeps objects."""


class PdfParser(Tagged):
    """How PDFs are read."""

    type: Literal["pdf"] = "pdf"
    mode: Literal["fast", "auto", "ocr"] | None = None
    """`fast` takes the text that the file holds, `ocr` reads its pictures, `auto` chooses."""
    max_pages: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """The most pages of a file that are read; further ones are left out and cost nothing."""
    pages: StrictBool | None = None
    """Whether the document has the Markdown of each page, too."""
    blocks: StrictBool | None = None
    """Whether the document has the blocks of each page, too."""
    page_markers: StrictBool | None = None
    """Whether the Markdown has a mark between two pages."""


class ImageParser(Tagged):
    """Reads the text in pictures."""

    type: Literal["image"] = "image"


_ParserName = Annotated[Literal["pdf", "image"], Tag("name")]
_ParserObject = Annotated[PdfParser | ImageParser, Field(discriminator="type"), Tag("options")]
Parser = Annotated[
    str | Mapping[str, Any] | PdfParser | ImageParser,
    checked_as(Annotated[_ParserName | _ParserObject, Discriminator(_form)]),
]
"""`pdf`, `image`, or an object with options. A request keeps objects."""


def name_of(option: str | Mapping[str, Any] | Tagged) -> str:
    """Return the name of a format or a parser of a request, whatever form it has."""
    return option.type if isinstance(option, Tagged) else str(option)
