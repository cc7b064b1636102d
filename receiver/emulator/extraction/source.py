"""What an extraction reads, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionSource:
    """One page, as far as an extraction needs it."""

    url: str
    """The URL after redirects."""
    markdown: str = ""
    """The page's text."""
    html: str | None = None
    """The page as it was sent; None if it is no HTML."""
    data: Any = None
    """The value of a JSON page; None for other pages."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The page's own metadata."""
    links: Sequence[str] = ()
    """Absolute URLs."""
    images: Sequence[str] = ()
    """Absolute URLs."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to know of a page: a schema, a prompt, or both."""

    schema: Json | None = None
    """A JSON Schema of the result; None leaves the form open."""
    prompt: str | None = None
    """What to extract, in plain words."""
    system_prompt: str | None = None
    """How a model should behave; rules do not read it."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of an extraction. What was not found is null."""

    data: Any
    """Any JSON, in the form of the schema if there is one; None if nothing could be extracted."""
    warnings: tuple[str, ...] = ()
    """Sentences for the answer: what is missing, what was dropped, and why."""
    model_fault: str | None = None
    """Why a model gave no answer, so that rules were used; None in all other cases."""
