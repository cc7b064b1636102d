"""What is done on a page before its content is taken (interface specification, section Action objects)."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from receiver.requests.base import Count, Tagged


class WaitAction(Tagged):
    """Wait a number of milliseconds, or for an element."""

    type: Literal["wait"] = "wait"
    milliseconds: Count | None = None
    """How long to wait, at least 1."""
    selector: str | None = None
    """A CSS selector. The wait ends when an element matches."""


class ScreenshotAction(Tagged):
    """Take a screenshot: of the current viewport, or of the full page."""

    type: Literal["screenshot"] = "screenshot"
    full_page: StrictBool = False
    """Whether the whole page is taken, not the viewport alone."""
    quality: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """100 is best."""


class ClickAction(Tagged):
    """Click the element, or every one that matches. It is no error if nothing does."""

    type: Literal["click"] = "click"
    selector: str
    """A CSS selector."""
    all: StrictBool = False
    """Whether every matching element is clicked, not the first alone."""


class WriteAction(Tagged):
    """Type a text into the element that an earlier click has focused."""

    type: Literal["write"] = "write"
    text: str
    """The text, typed character by character."""


class PressAction(Tagged):
    """Press a key, such as `Enter`."""

    type: Literal["press"] = "press"
    key: str
    """Name of the key, such as `Enter`."""


class ScrollAction(Tagged):
    """Scroll the page, or the element."""

    type: Literal["scroll"] = "scroll"
    direction: Literal["up", "down"] = "down"
    """Which way."""
    selector: str | None = None
    """A CSS selector of the element to scroll; the page without it."""


class ScrapeAction(Tagged):
    """Take the page as it is now; it comes back in `actions.scrapes`."""

    type: Literal["scrape"] = "scrape"


class ExecuteJavascriptAction(Tagged):
    """Run a script; what it returns comes back in `actions.javascript_returns`."""

    type: Literal["executeJavascript"] = "executeJavascript"
    script: str
    """JavaScript, run in the page."""


class PdfAction(Tagged):
    """Make a PDF of the page; it comes back in `actions.pdfs`."""

    type: Literal["pdf"] = "pdf"
    format: Literal["A0", "A1", "A2", "A3", "A4", "A5", "A6", "Letter", "Legal", "Tabloid", "Ledger"] = "Letter"
    """Size of the paper."""
    landscape: StrictBool = False
    """Whether the paper lies on its long side."""
    scale: Annotated[float, Field(strict=True)] = 1.0
    """How much larger than on the screen: 1 is the same size."""


Action = Annotated[
    WaitAction
    | ScreenshotAction
    | ClickAction
    | WriteAction
    | PressAction
    | ScrollAction
    | ScrapeAction
    | ExecuteJavascriptAction
    | PdfAction,
    Field(discriminator="type"),
]
"""Any of them; in JSON, `type` tells which."""
