"""The common base of all models that are read from the service, and the forms of their fields.

These models read leniently, by these rules:

- A missing key and null are alike: None, an empty list, or an empty object.
- An unknown key is kept in `model_extra` under its wire name, at every level.
- A value of an undocumented form never fails the whole model. Its field has the default then, and the value is kept
  in `model_extra` under its wire name.
- An item of an undocumented form never empties its list. The field has the other items then, and the whole list is
  kept in `model_extra`. A list with more than 1,000 such items is itself a value of an undocumented form.
- Attributes are snake_case of the wire name. The wire's `json`, `from` and `del` are `json_`, `from_` and
  `del_`, because pydantic has a method `json`, and the others are keywords of Python (PEP 8, naming styles).
- Fields with a set of words are plain strings, because new words appear. Their docstrings name the documented
words.
"""

import functools
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictFloat,
    StrictInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, SchemaValidator

MAX_ODD_ITEMS = 1_000
"""The most items that are left out of a list. With more of them the list itself has an undocumented form."""
REPR_CHARACTERS = 100
"""The most characters of a text in a `repr`: a page may have many megabytes, and people read logs."""


_SCALAR = (str, int, float, type(None))
_OF_PYDANTIC = {"model_copy", "model_dump", "model_dump_json", "model_extra", "model_fields_set"}
_FOR_SUBCLASSES = {"model_config", "model_post_init", "names_keys_freely", "repr_fields"}


class ServiceModel(BaseModel):
    """Base of everything read from the service: immutable, lenient, short when printed.

    Fields can be set by wire name or by attribute name. `model_dump(by_alias=True, exclude_unset=True)` writes the
    wire names. Objects of one class with equal values are equal and have the same hash, so sets and dictionaries
    take them. `dir` lists fields and properties, and of pydantic's own names only the useful ones.
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
        try:
            return cast("Self", _strict_validator(cls).validate_python(value, by_alias=True, by_name=False))
        except ValidationError:
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
        fit_items: dict[str, list[Any]] = {}
        while True:
            try:
                model = handler({key: item for key, item in value.items() if key not in unfit})
            except ValidationError as exc:
                found = _unfit_keys(exc, value, cls)
                if found.keys() <= unfit.keys():
                    raise
                unfit |= found
                fit_items |= _fit_items(exc, cls)
            else:
                break
        model.__dict__.update(fit_items)  # assignment is refused: the model is frozen
        kept = model.__pydantic_extra__
        if kept is not None:
            kept.update((wire_name, value[key]) for key, wire_name in unfit.items())
        return model

    def __hash__(self) -> int:
        # Lists and objects are left out: they have no hash. Equal objects have equal texts and numbers too.
        return hash((type(self), *[value for value in self.__dict__.values() if isinstance(value, _SCALAR)]))

    def __dir__(self) -> Iterable[str]:
        ours = [vars(one) for one in type(self).__mro__ if one not in BaseModel.__mro__]
        names = {name for one in ours for name in one if not name.startswith("_")} - _FOR_SUBCLASSES
        return sorted(names | set(type(self).model_fields) | _OF_PYDANTIC)

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        for name in self.repr_fields:
            value = getattr(self, name)
            if isinstance(value, str) and len(value) > REPR_CHARACTERS:
                value = value[:REPR_CHARACTERS] + "..."
            yield name, value


@functools.cache
def _strict_validator(model: type[ServiceModel]) -> SchemaValidator:
    """Return a validator that refuses unfit values and items; what it accepts, it reads as `model_validate` does.

    Nearly every object fits, and pydantic needs half of the time for it if it calls no function of ours around each
    model and list. The functions that are left out only act on a ValidationError.
    """
    return SchemaValidator(strict_schema(model))


def strict_schema(model: type[ServiceModel], without: Collection[object] = ()) -> Any:
    """Return a model's schema without our wrap validators, and without these functions of other validators.

    The form of a schema is https://docs.pydantic.dev/latest/api/pydantic_core_schema/.
    """
    lenient = (_tell_fit_items, ServiceModel.__dict__["_set_unfit_values_aside"].__func__, *without)
    return _without(lenient, model.__pydantic_core_schema__)


def _without(functions: Collection[object], schema: Any) -> Any:
    match schema:
        case {"function": {"function": function}, "schema": inner} if _is_one_of(functions, function):
            return _without(functions, inner)
        case dict():
            return {key: _without(functions, value) for key, value in schema.items()}
        case list() | tuple():
            return type(schema)([_without(functions, one) for one in schema])
    return schema


def _is_one_of(functions: Collection[object], function: object) -> bool:
    return getattr(function, "__func__", function) in functions


@functools.cache
def wire_names(model: type[ServiceModel]) -> Mapping[str, str]:
    """Return the name on the wire of each attribute."""
    return MappingProxyType({name: field.alias or name for name, field in model.model_fields.items()})


def _unfit_keys(exc: ValidationError, value: Mapping[str, Any], model: type[ServiceModel]) -> dict[str, str]:
    """Return the keys of `value` that a validation refused, each with its wire name."""
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    blamed = {error["loc"][0] for error in errors if error["loc"]}
    return {
        (wire_name if wire_name in value else name): wire_name
        for name, wire_name in wire_names(model).items()
        if not blamed.isdisjoint((name, wire_name)) and (wire_name in value or name in value)
    }


def _fit_items(exc: ValidationError, model: type[ServiceModel]) -> dict[str, list[Any]]:
    """Return, by attribute, the items that fit of each list in which only some do."""
    names: dict[Any, str] = {key: name for name, field in model.model_fields.items() for key in (field.alias, name)}
    errors = exc.errors(include_url=False, include_input=False)
    return {names[error["loc"][0]]: error["ctx"]["fit"] for error in errors if error["type"] == _ODD_ITEMS}


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


def null_as_list(value: object) -> object:
    """Read null as an empty list."""
    return [] if value is None else value


def null_as_object(value: object) -> object:
    """Read null as an empty object."""
    return {} if value is None else value


T = TypeVar("T")

_ODD_ITEMS = "odd_items"


def _tell_fit_items(value: object, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate a list. If only some items fit, raise an error with these."""
    try:
        return handler(value)
    except ValidationError as exc:
        if not isinstance(value, list):
            raise
        refused = exc
    fit: list[Any] = []
    odd = 0
    pending = [value]
    while pending:
        part = pending.pop()
        try:
            fit += handler(part)
        except ValidationError:
            if len(part) > 1:
                middle = len(part) // 2
                pending += (part[middle:], part[:middle])
            elif (odd := odd + 1) > MAX_ODD_ITEMS:
                raise
    if not fit:
        raise refused
    raise PydanticCustomError(_ODD_ITEMS, "not all items fit", {"fit": fit})


ItemList = Annotated[list[T], Field(fail_fast=True), WrapValidator(_tell_fit_items)]
"""A list whose items of an undocumented form are left out."""

Items = Annotated[ItemList[T], BeforeValidator(null_as_list)]
"""A list that may be missing or null, and is then empty."""

OrEmpty = Annotated[T, BeforeValidator(null_as_object)]
"""An object that may be missing or null, and is then empty."""

JsonObject = OrEmpty[dict[str, Any]]
"""A free JSON object that may be missing or null, and is then empty."""

Moment = Annotated[datetime, BeforeValidator(_read_moment)]
"""An aware moment in UTC. A text without an offset, or a number, is not read as a moment: that would be a guess."""

Number = StrictInt | StrictFloat
"""A JSON number. A text with a number, true and false are not numbers."""

Texts = str | ItemList[str]
"""One text or several: pages repeat their meta tags."""
