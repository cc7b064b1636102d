"""The common base of all requests, and the forms of their fields.

Requests are strict, by these rules:

- Fields have snake_case names. Keywords and mappings may also use the camelCase wire names. Unknown keys are
refused.
- A request is checked when it is made. A pydantic ValidationError, which is a ValueError, names the field and the
  rule. Its text quotes no values, because headers may hold secrets.
- `wire()` has everything that was set, also what equals a default: the service's own defaults differ by version
  and change. None stands for "not set".
- Type checkers need no plugin: an `alias` stands inside of `Annotated`, where they do not see it, and a default is
  given by keyword (https://typing.python.org/en/latest/spec/dataclasses.html#field-specifier-parameters).
- The wire's `json` and `schema` are `json_` and `schema_`, because pydantic has methods of these names.
"""

import string
import uuid
from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Annotated, Any, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictInt,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from receiver.core.addresses import LONGEST_LABEL, fits_dns

_TOKEN = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")
"""The characters in the name of an HTTP header: RFC 9110, section 5.6.2."""


class Request(BaseModel):
    """Base of everything that is sent to the service: immutable, strict, short on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    def wire(self) -> dict[str, Any]:
        """Return the JSON object to send: wire names, and what was set, also if it equals a default."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class Tagged(Request):
    """An object whose kind is its `type`, which is therefore always sent."""

    type: str
    """The kind of the object; its fields depend on it."""

    @model_serializer(mode="wrap")
    def _with_type(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"type": self.type, **dump(self)}


def _require_web_address(value: str) -> str:
    if any(character.isspace() or not character.isprintable() for character in value):
        raise ValueError("an address has no spaces or control characters")
    try:
        parts = urlsplit(value)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ValueError("write a whole address, with https:// or http:// and a host")
    if not fits_dns(parts.hostname or ""):
        raise ValueError(f"a host has 1 to {LONGEST_LABEL} characters between two dots, and at most 253 in all")
    return value


def _schema_of_class(value: object) -> object:
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    return value


def _require_uuid(value: str) -> str:
    try:
        uuid.UUID(value)
    except ValueError:
        raise ValueError("an id is a UUID") from None
    return value


def is_one_line(text: str) -> bool:
    """Return whether a text can stand in a header: RFC 9110, section 5.5."""
    return not any(character in text for character in "\r\n\0")


def _require_header(name: str, value: str) -> None:
    if not name or not _TOKEN.issuperset(name):
        raise ValueError("the name of an HTTP header has letters, digits and hyphens, no spaces")
    if not is_one_line(value):
        raise ValueError(f"the value of the HTTP header {name} is one line, without CR, LF and NUL")


def _check_headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        _require_header(name, text)
    return value


T = TypeVar("T")


def checked_as(form: object) -> GetPydanticSchema:
    """Check a value as another type than the one that callers see."""
    return GetPydanticSchema(lambda _, handler: handler(form))


def _as_tuple(declared: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return handler(GenericAlias(tuple, (*get_args(declared), ...)))


Many = Annotated[Sequence[T], GetPydanticSchema(_as_tuple)]
"""Several values. A caller may give a list or any other collection; the request keeps a tuple."""

WebAddress = Annotated[str, AfterValidator(_require_web_address)]
"""An absolute http or https URL, sent unchanged."""

JsonSchema = Annotated[
    Mapping[str, Any] | type[BaseModel], checked_as(dict[str, JsonValue]), BeforeValidator(_schema_of_class)
]
"""A JSON Schema, or a pydantic class that has one; the request keeps the schema."""

Uuid = Annotated[str, AfterValidator(_require_uuid)]
"""An id that the service gave."""

HttpHeaders = Annotated[dict[str, str], AfterValidator(_check_headers)]
"""HTTP headers, name to value (RFC 9110, section 5)."""

Milliseconds = Annotated[StrictInt, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1)]
