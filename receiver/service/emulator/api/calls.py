"""What an operation of the API gets and gives, whatever its family."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from receiver.service.emulator.failures import CallRefused

__all__ = ["Answer", "ApiCall", "ApiOperation", "CallRefused", "Handle", "Json", "UploadedFile"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a call."""

    name: str
    """Its name, as the caller gave it; it may be empty."""
    content_type: str
    """Its media type, as the caller gave it; it may be empty."""
    data: bytes = field(repr=False)
    """Its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One authenticated call. `body` is the JSON object without its nulls: null means absent everywhere."""

    version: Literal[1, 2]
    """The version of the API."""
    team: str
    """Id of the account, made from the API key."""
    path: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the path, such as `id`."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the query, the last one of each name."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By lower-case name."""
    body: Json = field(default_factory=dict)
    """Empty for GET and DELETE."""
    nulls: frozenset[str] = frozenset()
    """The keys of the body that were null, for the changes that a null makes."""
    files: Mapping[str, UploadedFile] = field(default_factory=dict)
    """Uploaded files by the names of their parts."""
    base_url: str = ""
    """Scheme and host as the caller reached the emulator, for the URLs in answers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, the JSON object, and headers beside the usual ones."""

    body: Json
    """The JSON object."""
    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers beside the usual ones."""


Handle = Callable[[ApiCall], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation: where it is, what it does, and by which limits it is counted."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    """The HTTP method."""
    path: str
    """Such as `/v2/crawl/{id}`."""
    handle: Handle
    """What it does."""
    limit: str
    """The rate limit that it counts towards: scrape, map, crawl, crawlStatus, search, extract, account…"""
    status: str = "real"
    """For the guide's table of operations: real, rules or model, browser."""
    needs_key: bool = True
    """Whether a caller has to have a key; registration is for those who have none."""
    takes: Literal["json", "form", "bytes"] = "json"
    """What a body is: JSON, JSON or a form with a file, or a file itself, which is in `files` without a name."""
