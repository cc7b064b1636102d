"""Diffs of scraped pages, as change tracking gives them."""

from pydantic import Field, StrictBool, StrictInt

from receiver.events.documents.shape import Items, ServiceModel


class DiffLine(ServiceModel):
    """One line of a chunk: `type` is `add`, `del` or `normal`, and the flag of that name is true."""

    repr_fields = ("type", "ln", "ln1", "ln2")

    type: str | None = None
    content: str | None = None
    """The line with its leading `+`, `-` or blank."""
    add: StrictBool | None = None
    del_: StrictBool | None = Field(None, alias="del")
    normal: StrictBool | None = None
    ln: StrictInt | None = None
    """Line number of an added or deleted line."""
    ln1: StrictInt | None = None
    """Line number before, of an unchanged line."""
    ln2: StrictInt | None = None
    """Line number after, of an unchanged line."""


class DiffChunk(ServiceModel):
    """Lines that changed together; `content` is the chunk's `@@` line."""

    repr_fields = ("content",)

    content: str | None = None
    changes: Items[DiffLine] = Field(default_factory=list)
    old_start: StrictInt | None = None
    old_lines: StrictInt | None = None
    new_start: StrictInt | None = None
    new_lines: StrictInt | None = None


class DiffFile(ServiceModel):
    """The changes of one page, as a tree."""

    repr_fields = ("from_", "to")

    from_: str | None = Field(None, alias="from")
    to: str | None = None
    chunks: Items[DiffChunk] = Field(default_factory=list)


class DiffTree(ServiceModel):
    """A unified diff taken apart."""

    files: Items[DiffFile] = Field(default_factory=list)


class Diff(ServiceModel):
    """Difference of a page from its earlier scrape, as a unified diff and as a tree."""

    text: str | None = None
    json_: DiffTree | None = Field(None, alias="json")
