"""Event classes: their list, how they are made by hand, and their properties."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from receiver import events
from receiver.events import (
    EVENT_CLASSES,
    AgentAction,
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    BatchScrapeEvent,
    BatchScrapePage,
    CrawlCompleted,
    CrawlEvent,
    CrawlPage,
    Event,
    ExtractCompleted,
    ExtractEvent,
    MonitorCheckCompleted,
    MonitorEvent,
    MonitorPage,
    PageEvent,
    ScheduledRun,
    TerminalEvent,
    UnknownEvent,
    parse_event,
)
from receiver.events.documents import (
    AgentResult,
    AgentStep,
    CheckedPage,
    CheckSummary,
    Document,
    ExtractResult,
    MonitorCheck,
)
from tests.cases import for_each
from tests.events.recorded import SAMPLES

# The types that the service's webhook documentation and its senders name.
KNOWN_TYPES = {
    CrawlEvent: "started page completed failed cancelled",
    BatchScrapeEvent: "started page completed failed",
    ExtractEvent: "started completed failed",
    AgentEvent: "started action completed failed cancelled",
    MonitorEvent: "page check.completed",
}
FAMILIES = {
    CrawlEvent: "crawl",
    BatchScrapeEvent: "batch_scrape",
    ExtractEvent: "extract",
    AgentEvent: "agent",
    MonitorEvent: "monitor",
}

every_class = for_each("event_class", EVENT_CLASSES.values())


def test_there_is_a_class_for_every_known_type() -> None:
    """There are no more and no fewer."""
    known = {f"{FAMILIES[base]}.{kind}" for base, kinds in KNOWN_TYPES.items() for kind in kinds.split()}

    assert set(EVENT_CLASSES) == known


def test_all_public_names_are_exported() -> None:
    """Every class of the package can be imported from `receiver.events`, and the list is sorted."""
    exported = [getattr(events, name) for name in events.__all__]
    bases = {base for cls in EVENT_CLASSES.values() for base in cls.__mro__ if issubclass(base, Event)}

    assert {cls for cls in exported if isinstance(cls, type)} == bases | {UnknownEvent, ScheduledRun}
    assert sorted(events.__all__, key=lambda name: (not name.isupper(), name)) == events.__all__


@every_class
def test_a_class_belongs_to_the_family_of_its_type(event_class: type[Event]) -> None:
    """`@router.on(CrawlEvent)` gets all crawl events and no others."""
    family = event_class.type_name.partition(".")[0]

    assert [base for base, name in FAMILIES.items() if issubclass(event_class, base)] == [
        next(base for base, name in FAMILIES.items() if name == family)
    ]


@every_class
def test_last_events_and_page_events_are_marked_by_their_base(event_class: type[Event]) -> None:
    """A `TerminalEvent` ends a job; a `PageEvent` is a page of a crawl or batch scrape."""
    family, _, kind = event_class.type_name.rpartition(".")

    assert issubclass(event_class, TerminalEvent) == (kind in {"completed", "failed", "cancelled"})
    assert issubclass(event_class, PageEvent) == (kind == "page" and family != "monitor")


@every_class
def test_an_event_can_be_made_without_arguments(event_class: type[Event]) -> None:
    """It knows its type; all other fields are empty."""
    event = event_class()  # type: ignore[call-arg]  # each class of the catalog has a default for its type

    assert event.type == event_class.type_name
    assert (event.job_id, event.webhook_id, event.success, event.error) == (None, None, None, None)
    assert event.data == []
    assert event.metadata == {}
    assert event.model_dump(by_alias=True, exclude_unset=True) == {"type": event_class.type_name}


@pytest.mark.parametrize("base", [Event, UnknownEvent, CrawlEvent, PageEvent, TerminalEvent])
def test_base_classes_have_no_type(base: type[Event]) -> None:
    """Their `type_name` is empty, and `type` has to be given."""
    assert base.type_name == ""
    with pytest.raises(ValidationError):
        base.model_validate({})


def test_an_event_takes_attribute_names_and_wire_names() -> None:
    """Tests of handlers may use either."""
    page = Document(markdown="# Hi", metadata={"sourceURL": "https://example.com/"})

    by_attribute = CrawlPage(job_id="1", webhook_id="2", success=True, data=[page])
    by_wire_name = CrawlPage.model_validate(
        {
            "id": "1",
            "webhookId": "2",
            "success": True,
            "data": [{"markdown": "# Hi", "metadata": {"sourceURL": "https://example.com/"}}],
        }
    )

    assert by_attribute == by_wire_name
    assert by_attribute.page is page
    assert by_attribute.model_dump(by_alias=True, exclude_unset=True) == {
        "success": True,
        "type": "crawl.page",
        "id": "1",
        "webhookId": "2",
        "data": [{"markdown": "# Hi", "metadata": {"sourceURL": "https://example.com/"}}],
    }


def test_events_are_immutable() -> None:
    """One handler cannot change an event for the next one."""
    with pytest.raises(ValidationError, match="frozen"):
        CrawlPage().success = True  # type: ignore[misc]


def test_events_can_be_copied_and_pickled() -> None:
    """A handler may pass them to another process, also with unknown keys."""
    event = CrawlPage.read({"type": "crawl.page", "jobId": "1", "data": [{"links": 5, "new": 1}]})

    for twin in (copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert twin == event
        assert twin.job_id == "1"
        assert twin.data[0].model_extra == {"links": 5, "new": 1}


def test_the_repr_identifies_the_event_without_content() -> None:
    """It is safe and short in a log: no page, no error text, no metadata."""
    event = CrawlPage(
        job_id="1", error="secret", metadata={"key": "secret"}, data=[Document(markdown="secret" * 1000)]
    )

    assert repr(event) == "CrawlPage(type='crawl.page', job_id='1', webhook_id=None, success=None, items=1)"
    assert len(repr(UnknownEvent(type="x" * 10_000))) < 300


@pytest.mark.parametrize("page_class", [CrawlPage, BatchScrapePage])
class TestPageEvents:
    def test_the_url_is_the_one_asked_for_else_the_one_reached(self, page_class: type[CrawlPage]) -> None:
        """After a redirect, the owner of a job knows the URL that was asked for."""
        both = {"sourceURL": "https://example.com/a", "url": "https://example.com/b"}

        assert page_class(data=[Document(metadata=both)]).url == "https://example.com/a"
        assert page_class(data=[Document(metadata={"url": "https://example.com/b"})]).url == "https://example.com/b"
        assert page_class(data=[Document()]).url is None

    def test_without_a_document_there_is_no_page(self, page_class: type[CrawlPage]) -> None:
        """The service counts it as a success."""
        event = page_class(success=True)

        assert (event.page, event.url, event.status_code) == (None, None, None)
        assert not event.failed

    def test_a_page_that_answered_404_has_not_failed(self, page_class: type[CrawlPage]) -> None:
        """The scrape succeeded; the status is the page's own."""
        event = page_class(success=True, data=[Document(metadata={"statusCode": 404})])

        assert event.status_code == 404
        assert not event.failed

    @pytest.mark.parametrize("said", [{"success": False}, {"error": "Late"}, {"success": True, "error": "Late"}])
    def test_an_error_text_means_that_the_page_failed(
        self, page_class: type[CrawlPage], said: dict[str, Any]
    ) -> None:
        """Old senders set `success` for every page of a batch."""
        assert page_class(**said).failed

    def test_pages_of_a_cancelled_job_are_recognised(self, page_class: type[CrawlPage]) -> None:
        """They failed, but the pages themselves have no fault."""
        cancelled = page_class(success=False, error="Parent crawl/batch scrape was cancelled")

        assert cancelled.failed
        assert cancelled.cancelled_by_parent
        assert not page_class(success=False, error="Timeout").cancelled_by_parent


@pytest.mark.parametrize(
    ("given", "empty"),
    [
        (lambda: MonitorPage().page, CheckedPage()),
        (lambda: MonitorCheckCompleted().check, MonitorCheck()),
        (lambda: ExtractCompleted().result, ExtractResult()),
        (lambda: AgentAction().action, AgentStep()),
        (lambda: AgentCompleted().result, AgentResult()),
        (lambda: AgentCancelled().result, AgentResult()),
    ],
)
def test_the_property_of_a_missing_item_is_empty(given: Any, empty: Any) -> None:
    """A condition need not check for None where the sender always sends one item."""
    assert given() == empty


def test_the_property_is_the_first_item() -> None:
    """It is the same object as in `data`."""
    event = MonitorCheckCompleted(data=[MonitorCheck(summary=CheckSummary(changed=2))])

    assert event.check is event.data[0]
    assert event.check.summary.changed > 0


def test_a_completed_v0_job_carries_its_pages() -> None:
    """Both forms of v0 read alike: text below `content`, or flat."""
    page = {"content": "Hi", "markdown": "# Hi", "metadata": {"sourceURL": "https://example.com/"}}
    nested = CrawlCompleted.read({"type": "crawl.completed", "data": [{"content": page, "source": "s"}]})
    flat = CrawlCompleted.read({"type": "crawl.completed", "data": [page | {"source": "s"}]})

    assert nested == flat
    assert nested.data[0].url == "https://example.com/"
    assert (nested.data[0].content, nested.data[0].source) == ("Hi", "s")


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.name)
def test_equal_events_have_the_same_hash(path: Path) -> None:
    """So a set or a dictionary keeps one of them, and of their documents."""
    event, same = parse_event(path.read_bytes()), parse_event(path.read_bytes())
    other = event.model_copy(update={"job_id": "another"})

    assert {event, same} == {event}
    assert {event: 1, other: 2} == {same: 1, other: 2}
    assert set(event.data) == set(same.data)


def test_dir_lists_what_a_person_looks_for() -> None:
    """Fields and properties, without the inner life of pydantic."""
    listed = dir(CrawlPage(job_id="j"))

    assert set(CrawlPage.model_fields) | {"page", "url", "failed", "model_dump", "model_extra"} <= set(listed)
    assert len(listed) < 25
    assert not [name for name in listed if name.startswith("_") or not hasattr(CrawlPage(), name)]
