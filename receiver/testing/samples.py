"""Events as the service sends them, single ones and whole jobs. The same seed gives the same events."""

import random
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from pydantic_core import to_jsonable_python

from receiver.errors import ConfigurationError
from receiver.events import Event, parse_event
from receiver.service.samples import Payload, encode, set_value
from receiver.service.samples import job_story as payloads_of_job
from receiver.service.samples import sample as new_payload

E = TypeVar("E", bound=Event)

Order = Literal["told", "shuffled"]

_ON_THE_WIRE = {name: field.alias or name for name, field in Event.model_fields.items()}
_PER_PAGE = ("page", "action")


@dataclass(frozen=True)
class Sample(Generic[E]):
    """An event in two forms: `event` as a handler gets it, `body` as the service posts it."""

    event: E
    body: bytes


@overload
def sample(wanted: type[E], *, seed: int = 0, **values: Any) -> Sample[E]: ...


@overload
def sample(wanted: str, *, seed: int = 0, **values: Any) -> Sample[Event]: ...


def sample(wanted: type[Event] | str, *, seed: int = 0, **values: Any) -> Sample[Any]:
    """Return a sample of an event class or type, or of a variant such as `crawl.page.error`, with some values set.

    `job_id="j"` and other attributes of every event are set by their names. Deeper values are set by their path on
    the wire, with `__` between keys and indexes: `data__0__metadata__statusCode=404`. Ids are made from the seed,
    so a second sample of the same type needs another seed, or it is a duplicate. An unknown name or path raises
    ConfigurationError with similar ones.
    """
    name = wanted if isinstance(wanted, str) else wanted.type_name
    if not name:
        raise ConfigurationError(f"{wanted!r} stands for several types: name one of them, as in 'crawl.page'")
    payload = new_payload(name, rng=_rng(name, seed))
    for path, value in values.items():
        first, *deeper = path.split("__")
        set_value(payload, ".".join([_ON_THE_WIRE.get(first, first), *deeper]), value)
    return _sample(payload)


def job_story(
    family: str, pages: int = 20, *, order: Order = "told", lost: int = 0, seed: int = 0
) -> list[Sample[Event]]:
    """Return the events of one whole job: `crawl`, `batch_scrape`, `extract`, `agent` or `monitor`.

    `told` is the order in which they happen. `shuffled` is a random order in which the end of the job is not last,
    as the service may send them. `lost` is how many pages, or actions of an agent, are left out. Raises ValueError
    if there are fewer, and ConfigurationError for an unknown family.
    """
    if order not in ("told", "shuffled"):
        raise ValueError(f"the order of a story is 'told' or 'shuffled', not {order!r}")
    rng = _rng(family, seed)
    story = [_sample(payload) for payload in payloads_of_job(family, pages, rng)]
    losable = [number for number, one in enumerate(story) if one.event.type.endswith(_PER_PAGE)]
    if not 0 <= lost <= len(losable):
        raise ValueError(f"the story has {len(losable)} events of pages; {lost} of them cannot be lost")
    gone = set(rng.sample(losable, lost))
    kept = [one for number, one in enumerate(story) if number not in gone]
    end = kept[-1]
    while order == "shuffled" and kept[-1] is end and len(kept) > 1:
        rng.shuffle(kept)
    return kept


def as_body(given: Sample[Any] | Event | bytes) -> bytes:
    """Return the body that the service would post."""
    if isinstance(given, Event):
        return encode(to_jsonable_python(given.model_dump(by_alias=True, exclude_unset=True)))
    return given if isinstance(given, bytes) else given.body


def _sample(payload: Payload) -> Sample[Any]:
    body = encode(payload)
    return Sample(parse_event(body), body)


def _rng(name: str, seed: int) -> random.Random:
    return random.Random(f"{name} {seed}")  # noqa: S311 - repeatable, and no secret
