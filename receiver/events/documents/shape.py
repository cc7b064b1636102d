"""The common base of all models that are read from the service, and the forms of their fields.

These models read leniently, by these rules:

- A missing key and null are alike: None, an empty list, or an empty object.
- An unknown key is kept in `model_extra` under its wire name, at every level.
- A value of an undocumented form never fails the whole model. Its field has the default then, and the value is kept
  in `model_extra` under its wire name.
- Attributes are snake_case of the wire name. The wire's `json`, `from` and `del` are `json_`, `from_` and
  `del_`, because pydantic has a method `json`, and the others are keywords of Python (PEP 8, naming styles).
- Fields with a set of words are plain strings, because new words appear. Their docstrings name the documented
words.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    ModelWrapValidatorHandler,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

REPR_CHARACTERS = 100
"""The most characters of a text in a `repr`: a page may have many megabytes, and people read logs."""


class ServiceModel(BaseModel):
    """Base of everything read from the service: immutable, lenient, short when printed.

    Fields can be set by wire name or by attribute name. `model_dump(by_alias=True, exclude_unset=True)` writes the
    wire names.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="allow",
        frozen=True,
        hide_input_in_errors=True,
    )

    repr_fields: ClassVar[tuple[str, ...]] = ()
    """The attributes that a `repr` shows."""

    names_keys_freely: ClassVar[bool] = False
    """Whether unknown keys are normal, such as a page's own meta tags. They are then not drift."""

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Read a parsed JSON object. Only wire names count as keys.

        A page chooses the names of its meta tags, so a tag `status_code` must not be read as `statusCode`.
        """
        return cls.model_validate(value, by_alias=True, by_name=False)

    @model_validator(mode="wrap")
    @classmethod
    def _set_unfit_values_aside(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError:
            if not isinstance(value, Mapping):
                raise
        # pydantic refuses a lone surrogate in the name of an extra value, and then reports no other error.
        unfit = {key: key for key in value if not _is_unicode(key)}
        while True:
            try:
                model = handler({key: item for key, item in value.items() if key not in unfit})
            except ValidationError as exc:
                found = _unfit_keys(exc, value, cls)
                if found.keys() <= unfit.keys():
                    raise
                unfit |= found
            else:
                break
        kept = model.__pydantic_extra__
        if kept is not None:
            kept.update((wire_name, value[key]) for key, wire_name in unfit.items())
        return model

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        for name in self.repr_fields:
            value = getattr(self, name)
            if isinstance(value, str) and len(value) > REPR_CHARACTERS:
                value = value[:REPR_CHARACTERS] + "..."
            yield name, value


def _unfit_keys(exc: ValidationError, value: Mapping[str, Any], model: type[ServiceModel]) -> dict[str, str]:
    """Return the keys of `value` that a validation refused, each with its wire name."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    blamed = {error["loc"][0] for error in errors if error["loc"]}
    wire_names = {name: field.alias or name for name, field in model.model_fields.items()}
    return {
        (wire_name if wire_name in value else name): wire_name
        for name, wire_name in wire_names.items()
        if not blamed.isdisjoint((name, wire_name)) and (wire_name in value or name in value)
    }


def _is_unicode(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_moment(value: object) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("not a date-time with an offset")
    try:
        return moment.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("a date-time outside of the calendar") from exc


def _null_as_list(value: object) -> object:
    return [] if value is None else value


def _null_as_object(value: object) -> object:
    return {} if value is None else value


T = TypeVar("T")

Items = Annotated[list[T], FailFast(), BeforeValidator(_null_as_list)]
"""A list that may be missing or null, and is then empty."""

OrEmpty = Annotated[T, BeforeValidator(_null_as_object)]
"""An object that may be missing or null, and is then empty."""

JsonObject = OrEmpty[dict[str, Any]]
"""A free JSON object that may be missing or null, and is then empty."""

Moment = Annotated[datetime, BeforeValidator(_read_moment)]
"""An aware moment in UTC. A text without an offset, or a number, is not read as a moment: that would be a guess."""

Number = StrictInt | StrictFloat
"""A JSON number. A text with a number, true and false are not numbers."""

Texts = str | list[str]
"""One text or several: pages repeat their meta tags."""
