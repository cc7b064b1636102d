"""What an operation of the API gets and gives, whatever its family."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr
from starlette.requests import HTTPConnection

from receiver.core.addresses import is_loopback
from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, read_body, refusal

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


# FOLDED: Who calls: a program, or a page in a browser.
def is_foreign_page(request: HTTPConnection) -> bool:
    """Tell whether a page of another host than this machine calls, by way of a browser on this machine.

    The emulator fetches what that page could not read itself: the other programs on this machine.
    """
    origin = request.headers.get("origin")
    return origin is not None and not _is_local(origin)


def _is_local(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    return is_loopback(host) or host.endswith(".localhost")


# FOLDED: The registration of agents that hold no key, as far as an emulator needs one.
PATH = "/v2/agent-signup"
_POLICY = RequestPolicy()


class SignupBody(BaseModel):
    """The body of POST /v2/agent-signup. Its names have underscores, as the service has them."""

    model_config = ConfigDict(extra="ignore")

    email: StrictStr
    """The address of the person who answers for the agent. Nothing is sent to it."""
    agent_name: StrictStr
    """The name of the agent."""
    accept_terms: StrictBool
    """Whether the terms are accepted. The emulator has none."""


class RegistrationOperations:
    """Says how to get a key here, and gives one where any key passes."""

    def __init__(self, keys: ApiKeys, account: Account) -> None:
        self._keys = keys
        self._account = account

    def operations(self) -> list[ApiOperation]:
        """Return the operations. Callers need no key for them."""
        return [
            ApiOperation("GET", PATH, self.explain, "account", needs_key=False),
            ApiOperation("POST", PATH, self.sign_up, "account", needs_key=False),
        ]

    async def explain(self, call: ApiCall) -> Answer:
        """Say how to get a key here."""
        return Answer({"success": True, "message": self._keys.advice})

    async def sign_up(self, call: ApiCall) -> Answer:
        """Give a key. CallRefused with status 403 where only the configured keys pass."""
        read = read_body(SignupBody, call.body, _POLICY)
        if "@" not in read.email.strip("@") or not read.agent_name.strip() or not read.accept_terms:
            rule = "email has to be an address, agent_name a text, and accept_terms true"
            raise refusal([custom_issue(rule)])
        if not self._keys.anyone_passes:
            raise CallRefused(403, self._keys.advice, hints=[self._keys.advice])
        key = f"fc-{secrets.token_hex(16)}"
        left = await self._account.remaining(self._keys.team_of(f"Bearer {key}"))
        answer = {
            "success": True,
            "api_key": key,
            "sponsor_status": "verified",
            "credit_limit": left,
            "credits_remaining": left,
            "message": "No mail was sent: this is an emulator, whose keys need no confirmation.",
        }
        return Answer(answer, 201)
