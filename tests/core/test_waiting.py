"""Waiting for the first of several things."""

import asyncio

import pytest

from receiver.core.clock import first_of
from receiver.errors import StoreError
from tests.doubles import soon


async def test_the_first_to_return_ends_the_others() -> None:
    """They are cancelled and have ended when it returns."""
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    await soon(first_of(waits(), asyncio.sleep(0)))

    assert ended == ["other"]


async def test_an_error_of_the_first_is_raised() -> None:
    """The loop of the worker has to see an error of the store."""

    async def raises() -> None:
        raise StoreError("locked")

    with pytest.raises(StoreError):
        await soon(first_of(asyncio.Event().wait(), raises()))
