"""The document of a scrape: its price, and personal data that become marks."""

from typing import Any

import pytest

from receiver.emulator.scraping.document import credits_of, redact
from tests.emulator.pages import HOME, plan_of, tracking

JSON = {"type": "json", "prompt": "p"}
QUESTION = {"type": "question", "question": "q"}
HIGHLIGHTS = {"type": "highlights", "query": "q"}
QUERY = {"type": "query", "prompt": "q"}


@pytest.mark.parametrize(
    ("formats", "options", "more", "cost"),
    [
        (("markdown",), {}, {}, 1),
        (("markdown", "html", "links", "screenshot", "summary"), {}, {}, 1),
        ((JSON,), {}, {}, 5),
        (({"type": "extract", "prompt": "p"},), {"version": 1}, {}, 5),
        (({"type": "deterministicJson", "prompt": "p"},), {}, {}, 10),
        (({"type": "deterministicJson", "prompt": "p"},), {}, {"reused": True}, 3),
        (("markdown", tracking()), {}, {}, 1),
        (("markdown", tracking("git-diff")), {}, {}, 1),
        (("markdown", tracking("json", "git-diff")), {}, {}, 5),
        ((QUESTION,), {}, {}, 5),
        ((QUERY,), {}, {}, 5),
        ((QUESTION, QUERY), {}, {}, 5),
        ((QUESTION, HIGHLIGHTS), {}, {}, 9),
        ((JSON, QUESTION, HIGHLIGHTS, "audio", "video"), {}, {}, 21),
        (("markdown",), {"lockdown": True}, {}, 5),
        ((JSON,), {"lockdown": True}, {}, 5),
        (("markdown",), {"zero_data_retention": True}, {}, 2),
        (("markdown",), {"zero_data_retention": True, "lockdown": True}, {}, 5),
        (("markdown",), {}, {"num_pages": 1}, 1),
        (("markdown",), {}, {"num_pages": 7}, 7),
        ((JSON,), {}, {"num_pages": 3}, 7),
        (("markdown",), {"redact_pii": True}, {}, 5),
        (("markdown",), {"redact_pii": True}, {"num_pages": 3}, 15),
        (("markdown",), {"proxy": "basic"}, {}, 1),
        (("markdown",), {"proxy": "auto"}, {}, 1),
        (("markdown",), {"proxy": "enhanced"}, {}, 5),
        (("markdown",), {"proxy": "stealth"}, {}, 5),
        (("markdown",), {}, {"check_credits": 2}, 3),
    ],
)
def test_a_scrape_costs(formats: Any, options: Any, more: Any, cost: int) -> None:
    assert credits_of(plan_of(HOME, *formats, **options), **more) == cost


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Mail ann.b+c@mail.example.com.", "Mail <EMAIL>."),
        ("Pay with 4111 1111 1111 1111 now", "Pay with <CARD> now"),
        ("Order 4111 1111 1111 1112", "Order 4111 1111 1111 1112"),
        ("SSN 078-05-1120", "SSN <SSN>"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN <IBAN>"),
        ("ApiCall +44 20 7946 0958 or (212) 555-0123", "ApiCall <PHONE> or <PHONE>"),
        ("In 2026-08-04 we sold 12,345 bikes for 1.299,00 €", "In 2026-08-04 we sold 12,345 bikes for 1.299,00 €"),
        ("Version 1.2.3 at https://a.example/b?c=1", "Version 1.2.3 at https://a.example/b?c=1"),
        ("not@an-address, @handle, 0000000000000000", "not@an-address, @handle, 0000000000000000"),
    ],
)
def test_personal_data_become_marks(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "1 " * 100_000, "+1" * 100_000, "x@" * 100_000])
def test_hostile_texts_are_redacted_too(text: str) -> None:
    """The patterns have bounds, so that no text makes them try again and again."""
    assert isinstance(redact(text), str)
