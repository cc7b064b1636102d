"""Reads a body in one step, from bytes to event, if all its values have a documented form."""

from collections.abc import Mapping
from functools import cached_property

from pydantic import ValidationError
from pydantic_core import SchemaValidator
from pydantic_core.core_schema import tagged_union_schema

from receiver.events.base import Event, as_list
from receiver.events.documents.pages import text_as_diff
from receiver.events.documents.shape import null_as_list, null_as_object, strict_schema

_LEAVE_FITTING = (as_list, null_as_list, null_as_object, text_as_diff)
"""Functions that change only values which the schemas below them refuse."""


class StrictReader:
    """Reads the events of some classes.

    This takes three quarters of the time of parsing a small body first and then making the event: there are no
    values of Python in between, as no function of ours is called.
    """

    def __init__(self, classes: Mapping[str, type[Event]]) -> None:
        self._classes = classes

    def read(self, body: bytes) -> Event | None:
        """Return the event that the parsed body would become. None if it may be one that only others can read."""
        try:
            event: Event = self._validator.validate_json(body, by_alias=True, by_name=False)
        except ValidationError:
            return None
        if event.job_id is None:
            event.model_post_init(None)
        return event

    @cached_property
    def _validator(self) -> SchemaValidator:
        """The validator of all classes. Making it takes some milliseconds, and few commands read events."""
        schemas = {name: strict_schema(one, _LEAVE_FITTING) for name, one in self._classes.items()}
        for schema in schemas.values():
            del schema["post_init"]  # it takes 4 % of the time, and changes only an event without an `id`
        return SchemaValidator(tagged_union_schema(schemas, discriminator="type"))
