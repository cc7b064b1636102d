"""Samples and stories for tests. The same seed gives the same bytes."""

from typing import Any

import pytest

from receiver import ConfigurationError, parse_event
from receiver.events import EVENT_CLASSES, CrawlPage, Event, PageEvent
from receiver.service.samples import sample_names
from receiver.testing import job_story, sample
from receiver.testing.samples import as_body


@pytest.mark.parametrize("event_type", EVENT_CLASSES)
def test_there_is_a_sample_of_every_type(event_type: str) -> None:
    """By type and by class it is the same, and its event is that of the bytes."""
    made = sample(event_type)

    assert type(made.event) is EVENT_CLASSES[event_type]
    assert made.event == parse_event(made.body)
    assert made == sample(EVENT_CLASSES[event_type])


@pytest.mark.parametrize("name", sample_names())
def test_every_variant_has_a_sample(name: str) -> None:
    """By the name that `receiver send` uses."""
    assert sample(name).event.type == name or name.startswith(sample(name).event.type)


def test_a_sample_of_a_class_has_its_type() -> None:
    """A type checker knows `page`."""
    page = sample(CrawlPage, data__0__markdown="# Hi").event

    assert page.page is not None
    assert page.page.markdown == "# Hi"


def test_the_seed_makes_the_ids() -> None:
    """The same seed gives the same bytes, and another seed another delivery."""
    assert sample("crawl.page", seed=1).body == sample("crawl.page", seed=1).body
    assert sample("crawl.page").event.webhook_id != sample("crawl.page", seed=1).event.webhook_id
    assert sample("crawl.page").event.job_id != sample("crawl.page", seed=1).event.job_id


def test_values_are_set_by_attribute_and_by_path() -> None:
    """Fields of every event are set by the name of their attribute."""
    event = sample("crawl.page", job_id="j", webhook_id="w", success=False, data__0__metadata__statusCode=404).event

    assert isinstance(event, CrawlPage)
    assert (event.job_id, event.webhook_id, event.success, event.status_code) == ("j", "w", False, 404)
    assert not event.model_extra


@pytest.mark.parametrize(
    ("wanted", "values", "told"),
    [
        ("crawl.pages", {}, "did you mean crawl.page"),
        (PageEvent, {}, "stands for several types"),
        (Event, {}, "stands for several types"),
        ("crawl.page", {"data__7__markdown": ""}, "data is a list of 1 and has no '7'"),
        ("crawl.page", {"sucess": True}, "sucess: CrawlPage has no 'sucess'; did you mean success?"),
        ("crawl.page", {"data__0__markdwon": ""}, "Document has no 'markdwon'; did you mean markdown?"),
        ("crawl.page", {"data__0__raw_html": ""}, "Document has no 'raw_html'; did you mean rawHtml?"),
        ("crawl.page", {"data__0__colour": ""}, "Document has no 'colour'$"),
        ("crawl.page", {"data__0__metadata__statuscode": 1}, "'statuscode'; did you mean statusCode?"),
        ("crawl.page", {"data__0__metadata__source_url": ""}, "'source_url'; did you mean sourceURL?"),
        ("monitor.check.completed", {"data__0__summary__chnaged": 1}, "did you mean changed?"),
    ],
)
def test_an_unknown_name_or_path_is_an_error(wanted: Any, values: dict[str, object], told: str) -> None:
    """It lists the known ones."""
    with pytest.raises(ConfigurationError, match=told):
        sample(wanted, **values)  # type: ignore[call-overload]


def test_objects_with_free_keys_take_any_key() -> None:
    """The tags of a page, the metadata of a webhook, and what an agent's action was called with."""
    page = sample(CrawlPage, data__0__metadata__robots="none", metadata__order="7").event
    step = sample("agent.action", data__0__input__depth=2).event

    assert page.data[0].metadata.model_extra is not None
    assert page.data[0].metadata.model_extra["robots"] == "none"
    assert page.metadata["order"] == "7"
    assert step.data[0].input["depth"] == 2


@pytest.mark.parametrize("family", ["crawl", "batch_scrape", "extract", "agent", "monitor"])
def test_a_story_is_one_job(family: str) -> None:
    """All events have the same job id, and the last one ends the job."""
    story = job_story(family, pages=4)

    assert len({one.event.job_id for one in story}) == 1
    assert story[-1].event.type.endswith(".completed")
    assert story == job_story(family, pages=4)
    assert story != job_story(family, pages=4, seed=1)


def test_a_story_is_shuffled_and_loses_pages() -> None:
    """It never loses its start or its end. The other events are the same, in another order."""
    told = job_story("crawl", pages=20)
    shuffled = job_story("crawl", pages=20, order="shuffled", lost=2)

    types = [one.event.type for one in shuffled]
    assert len(shuffled) == len(told) - 2
    assert (types.count("crawl.started"), types.count("crawl.completed")) == (1, 1)
    assert types[-1] != "crawl.completed"
    assert {one.body for one in shuffled} < {one.body for one in told}
    assert shuffled == job_story("crawl", pages=20, order="shuffled", lost=2)


@pytest.mark.parametrize(("family", "lost"), [("crawl", 4), ("extract", 1), ("agent", 4), ("monitor", -1)])
def test_no_more_pages_are_lost_than_there_are(family: str, lost: int) -> None:
    """The error says how many there are."""
    with pytest.raises(ValueError, match="events of pages"):
        job_story(family, pages=3, lost=lost)


def test_there_are_two_orders() -> None:
    """Another order is an error."""
    with pytest.raises(ValueError, match="'told' or 'shuffled', not 'random'"):
        job_story("crawl", order="random")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sample_names())
def test_an_event_becomes_bytes_that_parse_to_it(name: str) -> None:
    """So an event that a test made can be delivered too."""
    event = sample(name).event

    assert parse_event(as_body(event)) == event


def test_batch_is_short_for_batch_scrape() -> None:
    """Both names give the same story."""
    assert job_story("batch", pages=2) == job_story("batch_scrape", pages=2)
