"""Writing to a pipe that another program has made non-blocking."""

import os
import select

import pytest

from receiver.runtime.processes import write_some


def test_a_full_pipe_that_does_not_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader reads only when somebody waits for it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = os.write(writer, bytes(2**24))
    waited: list[object] = []

    def read(*descriptors: object) -> None:
        waited.append(descriptors)
        os.read(reader, filled)

    monkeypatch.setattr(select, "select", read)
    with os.fdopen(reader, "rb"), os.fdopen(writer, "wb"):
        assert write_some(writer, b"more") == 4
        assert os.read(reader, 9) == b"more"

    assert waited == [((), (writer,), ())]
