"""The request to parse an uploaded file (version 2; the service's SDK and public behaviour)."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, Strict, StrictBool, model_validator

from receiver.requests.base import is_one_line
from receiver.requests.pages import FileOptions

_NOT_OF_A_FILE = ("rawBase64", "changeTracking", "screenshot", "branding", "audio", "video")
MAX_FILE_BYTES = 50 * 1024 * 1024


def _require_file_name(value: str) -> str:
    if not value.strip() or not is_one_line(value):
        raise ValueError("the name of a file is one line with at least one letter or digit, such as a.pdf")
    return value


def _require_media_type(value: str) -> str:
    kind, _, form = value.partition("/")
    if not (kind and form) or kind.split() != [kind] or not is_one_line(value):
        raise ValueError("a media type such as application/pdf")
    return value


class ParseRequest(FileOptions):
    """A file to read. It is sent as multipart: the part `file`, and `wire()` as JSON in the part `options`."""

    file: Annotated[bytes, Strict(), Field(min_length=1, max_length=MAX_FILE_BYTES, exclude=True, repr=False)]
    """The bytes of the file, at most 50 MiB."""
    filename: Annotated[str, AfterValidator(_require_file_name), Field(exclude=True)]
    """Its name. The service recognizes the kind of the file by the extension, such as `.pdf` or `.docx`."""
    content_type: Annotated[Annotated[str, AfterValidator(_require_media_type)] | None, Field(exclude=True)] = None
    """Its media type, such as `application/pdf`; the service looks at it if the extension says nothing."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this file. The account has to have this feature."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.refuse_formats(*_NOT_OF_A_FILE, by="a file")
        return self
