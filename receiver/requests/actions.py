"""Steps on a page before its content is taken (interface specification, section Action objects)."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from receiver.requests.base import Count, Tagged
from receiver.requests.options import ScreenshotOptions


class WaitAction(Tagged):
    """Wait for a time, or for an element: give exactly one of the two."""

    type: Literal["wait"] = "wait"
    milliseconds: Count | None = None
    """How long to wait, at least 1."""
    selector: str | None = None
    """A CSS selector. The wait ends when an element matches."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.milliseconds is None) == (self.selector is None):
            raise ValueError("give exactly one of milliseconds and selector")
        return self


class ScreenshotAction(Tagged, ScreenshotOptions):
    """Take a screenshot: of the current viewport, or of the full page."""

    type: Literal["screenshot"] = "screenshot"


class ClickAction(Tagged):
    """Click an element, or every matching one. It is not an error if none matches."""

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
    """The direction to scroll in."""
    selector: str | None = None
    """A CSS selector of the element to scroll; the page without it."""


class ScrapeAction(Tagged):
    """Take the page as it is now, into `actions.scrapes` of the answer."""

    type: Literal["scrape"] = "scrape"


class ExecuteJavascriptAction(Tagged):
    """Run a script. Its result is in `actions.javascript_returns` of the answer."""

    type: Literal["executeJavascript"] = "executeJavascript"
    script: str
    """JavaScript, run in the page."""


class PdfAction(Tagged):
    """Make a PDF of the page, into `actions.pdfs` of the answer."""

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
"""Any action; in JSON, `type` says which."""
