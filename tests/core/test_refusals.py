"""Reasons of refused values: no Python types, and limits as people write them."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from receiver.core.text import plain_reason


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (int, "foo", "write a whole number"),
        (int, 1.5, "write a whole number"),
        (float, "foo", "write a number"),
        (bool, "perhaps", "write true or false"),
        (str, 5, "write a text"),
        (tuple[str, ...], "markdown", "write a list"),
        (list[str], 5, "write a list"),
        (dict[str, str], 5, "write an object"),
        (Annotated[int, Field(ge=1)], 0, "it has to be 1 or more"),
        (Annotated[int, Field(le=60)], 61, "it has to be 60 or less"),
        (Annotated[timedelta, Field(gt=timedelta(0))], timedelta(0), "it has to be more than 0s"),
        (Annotated[timedelta, Field(lt=timedelta(seconds=10))], timedelta(hours=1), "it has to be less than 10s"),
        (Literal["skip", "only"], "x", "it has to be 'skip' or 'only'"),
        (Annotated[str, Field(max_length=2)], "abc", "write 2 or fewer characters"),
        (Annotated[tuple[int, ...], Field(min_length=1)], (), "list 1 or more"),
    ],
)
def test_a_reason_is_in_plain_words(kind: Any, value: object, reason: str) -> None:
    """The words say what to write, or the limit."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)

    assert plain_reason(caught.value.errors()[0]) == reason
