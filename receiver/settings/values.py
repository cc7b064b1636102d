"""The kinds of values of settings, and how each is written."""

import json
import re
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from receiver.core.addresses import is_loopback, is_private, require_service_address
from receiver.core.signing import standard_key
from receiver.core.units import MAX_DURATION, in_words, parse_duration, parse_size

PLACEHOLDER = "the-webhook-secret-of-your-account"
"""The value of SECRETS in `.env.example`. Settings refuse it as a secret."""
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # a token, RFC 9110, section 5.6.2
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def _split(value: Any) -> Any:
    """Accept a JSON list or values separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("this starts like a JSON list but is not valid JSON") from None
    return [part.strip() for part in value.split(",") if part.strip()]


def _usable(values: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    for value in values:
        if not value.get_secret_value():
            raise ValueError("a secret must not be empty")
        if value.get_secret_value() == PLACEHOLDER:
            raise ValueError(f"{PLACEHOLDER!r} is the placeholder of .env.example; replace it with the real secret")
        if not is_utf8(value.get_secret_value()):
            raise ValueError("a secret is not UTF-8 text")
    return values


def _sendable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", value.get_secret_value()):  # RFC 6750, section 2.1
        raise ValueError("a bearer token may have only letters, digits and the characters . _ ~ + / -")
    return value


def _alert_url(value: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(value.get_secret_value())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("this is not a URL") from None
    if parts.username or parts.password:
        raise ValueError("the URL must not contain a user or password; sign alerts with ALERT_SECRET")
    inside = is_private(host) or is_loopback(host)
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and inside)):
        raise ValueError("the URL must begin with https://, or with http:// for a host in your own network")
    return value


def _standard_secret(value: SecretStr) -> SecretStr:
    try:
        standard_key(value.get_secret_value())
    except ValueError:
        raise ValueError(
            "the secret must be base64 of 24 to 64 bytes, such as `openssl rand -base64 32` prints; whsec_ may "
            "stand before it"
        ) from None
    return value


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the environment that could not be decoded
        return False
    return True


def _seconds(value: Any) -> Any:
    """Accept a number of seconds, also as text from the environment, as well as durations and ISO 8601."""
    if isinstance(value, str) and value.startswith("P"):
        return value
    try:
        return timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError):
        return parse_duration(value)


def _bytes(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def _clean_path(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", value):
        raise ValueError("a path may have only letters, digits and the characters . _ ~ / -")
    return "/" + value.strip("/")


def _header_name(value: str) -> str:
    if not re.fullmatch(_HEADER_NAME, value):
        raise ValueError(
            "the name of a header may have only letters, digits and the characters ! # $ % & ' * + . ^ _ ` | ~ -"
        )
    return value


def _level(value: str) -> str:
    if value.upper() not in _LEVELS:
        raise ValueError(f"a level is {', '.join(_LEVELS[:-1]).lower()} or {_LEVELS[-1].lower()}")
    return value.upper()


SecretList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split), AfterValidator(_usable)]
"""Secrets, as a JSON list or separated by commas."""
NameList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Names, as a JSON list or separated by commas."""
BearerToken = Annotated[SecretStr, AfterValidator(_sendable)]
"""A token for `Authorization: Bearer`."""
Seconds = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0), le=timedelta(days=365))]
"""A short duration, such as 5s; a number without a unit is in seconds."""
Age = Annotated[timedelta, BeforeValidator(parse_duration), Field(gt=timedelta(0), le=MAX_DURATION)]
"""A long duration, such as 90d; a number without a unit is refused."""
AlertUrl = Annotated[SecretStr, AfterValidator(_alert_url)]
"""A secret URL: anyone who knows the webhook URL of a chat can post there."""
StandardSecret = Annotated[SecretStr, AfterValidator(_standard_secret)]
"""A secret of Standard Webhooks."""
READ_SIZE = BeforeValidator(_bytes)
"""In the metadata of every field that is a size."""
Size = Annotated[int, READ_SIZE, Field(gt=0)]
"""A size, such as 32MiB; a number without a unit is in bytes."""
HeaderName = Annotated[str, AfterValidator(_header_name)]
"""The name of an HTTP header."""
LogLevel = Annotated[str, AfterValidator(_level)]
"""The level of log lines, in any case."""
ServiceAddress = Annotated[str, AfterValidator(require_service_address)]
"""The address of the service."""
UrlPath = Annotated[str, AfterValidator(_clean_path)]
"""A path that begins with a slash and does not end with one."""


def as_text(value: Any) -> str | None:
    """Return a value as it is written in the environment; None for None."""
    match value:
        case None:
            return None
        case SecretStr():
            return value.get_secret_value()
        case timedelta():
            return in_words(value)
        case tuple():
            return json.dumps([as_text(one) for one in value])
    return str(value)
