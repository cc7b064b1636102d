"""The credits of a scrape, by the rules of the service's billing."""

from typing import Any

import pytest

from receiver.emulator.scraping.document import credits_of
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
