"""The bodies of browser sessions and of code for them."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from receiver.emulator.browser.session_records import SessionPlan
from receiver.emulator.wire.bodies import RequestPolicy, read_body
from receiver.emulator.wire.scrape import AnyLocation, SenderFields
from receiver.requests.base import Request

Json = dict[str, Any]

_MAX_CODE = 100_000
_MAX_PROMPT = 10_000


class SessionProfile(Request):
    """Cookies and local storage that sessions share by name. With `save_changes` a session writes into it."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    save_changes: StrictBool | None = None


class SessionBody(Request, SenderFields):
    """The body of POST /v2/browser."""

    ttl: Annotated[StrictInt, Field(ge=30, le=3600)] | None = None
    """Seconds."""
    activity_ttl: Annotated[StrictInt, Field(ge=10, le=3600)] | None = None
    """Seconds without a call."""
    stream_web_view: StrictBool | None = None
    block_ads: StrictBool | None = None
    profile: SessionProfile | None = None
    location: AnyLocation | None = None


class CodeBody(Request, SenderFields):
    """The body of POST /v2/browser/{id}/execute."""

    code: Annotated[str, Field(min_length=1, max_length=_MAX_CODE)]
    language: Literal["python", "node", "bash"] = "node"
    timeout: Annotated[StrictInt, Field(ge=1, le=300)] = 30
    """Seconds."""


class InteractBody(Request, SenderFields):
    """The body of POST /v2/scrape/{id}/interact."""

    code: Annotated[str, Field(max_length=_MAX_CODE)] | None = None
    prompt: Annotated[str, Field(max_length=_MAX_PROMPT)] | None = None
    language: Literal["python", "node", "bash"] = "node"
    timeout: Annotated[StrictInt, Field(ge=1, le=300)] = 30
    """Seconds."""
    profile: SessionProfile | None = None

    @model_validator(mode="after")
    def _says_what(self) -> "InteractBody":
        if not (self.code or "").strip() and not (self.prompt or "").strip():
            raise ValueError("Either 'code' or 'prompt' must be provided")
        return self


def read_session(body: Json, policy: RequestPolicy) -> SessionPlan:
    """Return the plan of a session."""
    read = read_body(SessionBody, body, policy, version=2)
    usual = SessionPlan()
    return SessionPlan(
        ttl=usual.ttl if read.ttl is None else timedelta(seconds=read.ttl),
        activity_ttl=usual.activity_ttl if read.activity_ttl is None else timedelta(seconds=read.activity_ttl),
        country=read.location.country if read.location else usual.country,
        stream_web_view=read.stream_web_view is not False,
        block_ads=read.block_ads is not False,
        profile=None if read.profile is None else read.profile.name,
        saves=read.profile is None or read.profile.save_changes is not False,
    )


def read_code(body: Json, policy: RequestPolicy) -> CodeBody:
    """Return the code for a session."""
    return read_body(CodeBody, body, policy, version=2)


def read_interaction(body: Json, policy: RequestPolicy) -> InteractBody:
    """Return the code, or the prompt, for the page of a scrape."""
    return read_body(InteractBody, body, policy, version=2)
