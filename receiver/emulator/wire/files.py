"""From the options of an upload to a plan with every default."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from receiver.emulator.content.uploads import MAX_BYTES
from receiver.emulator.failures import CallRefused
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.issues import read_body
from receiver.emulator.wire.policy import RequestPolicy
from receiver.emulator.wire.scrape import PageOptionsBody, SenderFields, plan_of
from receiver.requests.base import Request

Json = dict[str, Any]

_DEFAULT_POLICY = RequestPolicy()
_NOT_OF_A_FILE = ("rawBase64", "changeTracking", "screenshot", "branding", "audio", "video")
"""Formats that a file cannot have."""


class UploadRequestBody(Request, SenderFields):
    """The body of POST /v2/parse/upload-url."""

    filename: Annotated[str, Field(min_length=1, max_length=512)]
    """The name of the file."""
    content_type: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Its media type."""
    declared_size_bytes: Annotated[StrictInt, Field(ge=1, le=MAX_BYTES)] | None = None
    """Its size."""


class ParseOptionsBody(PageOptionsBody):
    """The part `options` of POST /v2/parse. SDKs send all options of a page in it."""

    zero_data_retention: StrictBool | None = None
    """Whether nothing of the file is kept."""


def read_parse_options(body: Json, policy: RequestPolicy = _DEFAULT_POLICY) -> ScrapePlan:
    """Return the plan, without URL, for a file. CallRefused is the service's 400, or 403.

    Options that only a page can have are refused with the code PARSE_UNSUPPORTED_OPTIONS; those of the cache are
    taken and mean nothing, because a file is read anew each time.
    """
    read = read_body(ParseOptionsBody, body, policy)
    if found := _unsupported(read):
        text = f"Files cannot be read with these options: {', '.join(found)}"
        raise CallRefused(400, text, code="PARSE_UNSUPPORTED_OPTIONS")
    plan = plan_of(read, policy, origin=read.origin, unkept=read.zero_data_retention is True)
    ignored = ("headers",) if plan.headers else ()
    return replace(
        plan,
        headers={},
        max_age=0,
        min_age=None,
        lockdown=False,
        store_in_cache=False,
        without_effect=(*plan.without_effect, *ignored),
    )


def read_upload_request(body: Json, policy: RequestPolicy = _DEFAULT_POLICY) -> UploadRequestBody:
    """Return what is known of a file before it comes. CallRefused is the service's 400."""
    return read_body(UploadRequestBody, body, policy)


def _unsupported(options: ParseOptionsBody) -> list[str]:
    """Return the wire names of options that a file cannot have."""
    given = {
        "actions": options.actions,
        "waitFor": options.wait_for,
        "location": options.location,
        "mobile": options.mobile,
        "proxy": options.proxy not in (None, "auto", "basic"),
    }
    formats = [f"formats: {name}" for name in dict.fromkeys(options.format_names) if name in _NOT_OF_A_FILE]
    return [name for name, value in given.items() if value] + formats
