"""The common base of all requests, and the forms of their fields.

Requests are strict, by these rules:

- Fields have snake_case names. Keywords and mappings may also use the camelCase wire names. Unknown keys are
refused.
- A request is checked when it is made. A pydantic ValidationError, which is a ValueError, names the field and the
  rule. Its text quotes no values, because headers may hold secrets.
- `wire()` leaves out everything that was not set or equals the service's default.
- The wire's `json` and `schema` are `json_` and `schema_`, because pydantic has methods of these names.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictInt,
    model_serializer,
)
from pydantic.alias_generators import to_camel


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
        """Return the JSON object to send: wire names, without unset fields and defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


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
        raise ValueError("an absolute address begins with https:// or http:// and a host")
    return value


def _schema_of_class(value: object) -> object:
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    return value


def _require_kind(value: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    if isinstance(value, Mapping) and not isinstance(value.get("type"), str):
        raise ValueError("an object has its kind as `type`")
    return value


WebAddress = Annotated[str, AfterValidator(_require_web_address)]
"""An absolute http or https URL, sent unchanged."""

JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(_schema_of_class)]
"""A JSON Schema, or a pydantic class that has one."""

NamedOption = Annotated[str | dict[str, JsonValue], AfterValidator(_require_kind)]
"""A name, or an object with options whose `type` is the name. Version 2 takes both."""

Milliseconds = Annotated[StrictInt, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1)]
