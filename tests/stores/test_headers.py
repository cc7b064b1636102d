"""Headers of a stored delivery, which are read when somebody looks at one."""

import copy
import pickle

import msgspec
import pytest

from receiver.core.deliveries import StoredDelivery
from receiver.core.signing import trace_of, with_trace
from receiver.core.types import Headers
from receiver.stores.sql.columns_of_bodies import headers_of, headers_text, headers_when_asked
from receiver.worker.calls.runner import delivery_info
from tests.doubles import delivery

HEADERS: Headers = (("host", "a"), ("x-name", 'ünïcödé "quoted"'), ("host", "b"))


def test_they_equal_the_tuple_that_was_stored() -> None:
    """Both ways, and each other; and nothing else."""
    stored, again = headers_when_asked(headers_text(HEADERS)), headers_when_asked(headers_text(HEADERS))

    assert stored == HEADERS
    assert HEADERS == stored  # noqa: SIM300 - the other way
    assert stored == again
    assert hash(stored) == hash(HEADERS)
    assert stored != HEADERS[:2]
    assert HEADERS[:2] != stored
    assert stored != headers_when_asked(headers_text(()))
    assert stored.__eq__(list(HEADERS)) is False


def test_they_are_read_as_the_tuple_is() -> None:
    """By place, by slice, in order, by length and as a text."""
    stored = headers_when_asked(headers_text(HEADERS))

    assert (stored[0], stored[-1], stored[1:]) == (HEADERS[0], HEADERS[-1], HEADERS[1:])
    assert (list(stored), len(stored), dict(stored)) == (list(HEADERS), 3, dict(HEADERS))
    assert HEADERS[1] in stored
    assert repr(stored) == repr(HEADERS)
    assert not headers_when_asked(headers_text(()))


@pytest.mark.parametrize("copied", [lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy])
def test_a_copy_is_a_tuple(copied: object) -> None:
    """So another process gets what it would have got."""
    assert callable(copied)
    copy_of = copied(headers_when_asked(headers_text(HEADERS)))

    assert type(copy_of) is tuple
    assert copy_of == HEADERS


def test_they_are_stored_again_with_the_same_text() -> None:
    text = headers_text(HEADERS)

    assert headers_text(headers_when_asked(text)) == text
    assert headers_of(text) == HEADERS


def test_text_is_read_only_when_somebody_looks() -> None:
    """Damaged text raises an error then, each time."""
    stored = headers_when_asked("damaged")

    for _ in range(2):
        with pytest.raises(msgspec.DecodeError):
            len(stored)


def test_the_fields_of_a_trace_are_found_in_them() -> None:
    """And a handler gets a tuple without them."""
    stored = headers_when_asked(headers_text(with_trace(HEADERS, {"traceparent": "00-1"})))

    assert trace_of(stored) == {"traceparent": "00-1"}
    assert with_trace(stored, {"tracestate": "s"})[-1] == (":tracestate", "s")
    for kept in (stored, headers_when_asked(headers_text(HEADERS))):
        seen = delivery_info(StoredDelivery(1, 0, delivery(headers=kept))).headers
        assert type(seen) is tuple
        assert seen == HEADERS
