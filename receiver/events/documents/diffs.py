"""Diffs of scraped pages, as change tracking gives them."""

from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import Items, ServiceModel


class DiffLine(ServiceModel):
    """One line of a chunk."""

    repr_fields = ("type", "ln", "ln1", "ln2")

    type: str | None = None
    """`add`, `del` or `normal`."""
    content: str | None = None
    """The line with its leading `+`, `-` or blank."""
    add: StrictBool | None = None
    """True on an added line."""
    del_: Annotated[StrictBool | None, Field(alias="del")] = None
    """True on a deleted line."""
    normal: StrictBool | None = None
    """True on an unchanged line."""
    ln: StrictInt | None = None
    """Line number of an added line in this scrape, of a deleted line in the earlier one, from 1."""
    ln1: StrictInt | None = None
    """Line number of an unchanged line in the earlier scrape, from 1."""
    ln2: StrictInt | None = None
    """Line number of an unchanged line in this scrape, from 1."""


class DiffChunk(ServiceModel):
    """Lines that changed together."""

    repr_fields = ("content",)

    content: str | None = None
    """The chunk's `@@` line."""
    changes: Items[DiffLine] = Field(default_factory=list)
    """The lines of the chunk, unchanged ones around the change among them."""
    old_start: StrictInt | None = None
    """Number of the chunk's first line in the earlier scrape, from 1."""
    old_lines: StrictInt | None = None
    """How many lines the chunk has in the earlier scrape."""
    new_start: StrictInt | None = None
    """Number of the chunk's first line in this scrape, from 1."""
    new_lines: StrictInt | None = None
    """How many lines the chunk has in this scrape."""


class DiffFile(ServiceModel):
    """The changes of one page, as a tree."""

    repr_fields = ("from_", "to")

    from_: Annotated[str | None, Field(alias="from")] = None
    """Name of the earlier text."""
    to: str | None = None
    """Name of the text of this scrape."""
    chunks: Items[DiffChunk] = Field(default_factory=list)
    """The places that changed, in the order of the page."""


class DiffTree(ServiceModel):
    """A unified diff as a tree."""

    files: Items[DiffFile] = Field(default_factory=list)
    """The pages that changed: one, for the diff of one page."""


class Diff(ServiceModel):
    """Difference of a page from its earlier scrape, as a unified diff and as a tree."""

    text: str | None = None
    """A unified diff, as `git diff` writes it."""
    json_: Annotated[DiffTree | None, Field(alias="json")] = None
    """The same as a tree of files, chunks and lines."""
