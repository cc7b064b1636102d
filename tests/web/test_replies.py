"""Tests of the answers of the endpoint."""

import json

import pytest

from receiver.core.deliveries import Receipt
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import Malformed, ReadTimeout, RejectedRequest, TooLarge, Unauthenticated
from receiver.web.replies import acknowledged, method_not_allowed, not_found, refused, reply, unavailable
from tests.doubles import Answer
from tests.web.parts import check_error


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unauthenticated("x"), 401, "unauthenticated"),
        (Malformed("x"), 400, "malformed"),
        (ReadTimeout("x"), 408, "timeout"),
        (TooLarge("x"), 413, "too_large"),
    ],
)
def test_refusals_have_the_documented_codes(error: RejectedRequest, status: int, code: str) -> None:
    """The status and the code are those of the documentation."""
    check_error(Answer(refused(error).messages()), status, code)


def test_every_refusal_is_a_4xx() -> None:
    """A new class of refusal needs its status and code in this test too."""
    assert {(kind.status, kind.code) for kind in RejectedRequest.__subclasses__()} == {
        (401, "unauthenticated"),
        (400, "malformed"),
        (408, "timeout"),
        (413, "too_large"),
    }


def test_the_other_answers_have_the_documented_forms() -> None:
    """These are 404, 405 and 503."""
    check_error(Answer(not_found().messages()), 404, "not_found")
    check_error(Answer(method_not_allowed("GET").messages()), 405, "method_not_allowed")
    check_error(Answer(unavailable("later").messages()), 503, "unavailable")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (AppendOutcome.ACCEPTED, "accepted"),
        (AppendOutcome.DUPLICATE, "duplicate"),
        (AppendOutcome.CONFLICT, "duplicate"),
    ],
)
def test_acknowledgements_have_the_documented_form(outcome: AppendOutcome, word: str) -> None:
    """An acknowledgement is compact JSON with a status and an id."""
    answer = Answer(acknowledged(Receipt(DeliveryKey("k"), outcome)).messages())

    assert (answer.status, answer.body) == (
        200,
        json.dumps({"status": word, "id": "k"}, separators=(",", ":")).encode(),
    )


def test_a_reply_is_ascii_json() -> None:
    """This holds for any text in the reply."""
    assert Answer(reply(200, {"a": "é\ud800\n"}).messages()).body == rb'{"a":"\u00e9\ud800\n"}'
