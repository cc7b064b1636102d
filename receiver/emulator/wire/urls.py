"""The URLs of requests: a scheme is added if there is none, and the host has to be a public name or an address."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError, ValidationInfo

from receiver.emulator.wire.policy import RequestPolicy
from receiver.requests.base import WebAddress

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d)", re.IGNORECASE)
"""What stands before a colon, unless a port follows."""
_NAME = re.compile(r"\.[^.\d][^.]*\.?$")
"""The end of a host name with a top-level domain, which is no number."""
_NEVER_IN_HOSTS = re.compile(r"[\x00-\x20\x7f#/:<>?@\[\\\]^|%]")
"""What a name cannot have: the forbidden domain code points of the URL standard, section 3.2."""
_DEFAULT = RequestPolicy()


def _with_scheme(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip().replace(" ", "%20")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return f"http://{text}"
    if scheme[1].lower() not in ("http", "https"):
        raise ValueError("URL uses unsupported protocol: only http and https are fetched")
    return scheme[1].lower() + text[len(scheme[1]) :]


def _require_host(value: str, info: ValidationInfo) -> str:
    policy = info.context if isinstance(info.context, RequestPolicy) else _DEFAULT
    host = (urlsplit(value).hostname or "").lower()
    known = policy.plain_hosts is None or host in policy.plain_hosts
    is_name = known or host.endswith(".localhost") or _NAME.search(host)
    if not (is_name and not _NEVER_IN_HOSTS.search(host)) and not _is_address(host):
        raise ValueError("Invalid URL: the host needs a top-level domain, or has to be an address")
    return value


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


WebUrl = Annotated[WebAddress, BeforeValidator(_with_scheme), AfterValidator(_require_host)]
"""The URL of a page: with `http://` before it where it came without scheme, otherwise as it was written."""

_URL: TypeAdapter[str] = TypeAdapter(WebUrl)


def split_urls(texts: list[str], policy: RequestPolicy) -> tuple[list[str], dict[int, str]]:
    """Return the URLs that are valid, in order, and the reason for each one that is not, by its place."""
    valid: list[str] = []
    reasons: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            valid.append(_URL.validate_python(text, context=policy))
        except ValidationError as exc:
            reasons[place] = str(exc.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
    return valid, reasons
