"""Events as the service sends them, single ones and whole jobs. The same seed gives the same events."""

import difflib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from pydantic_core import to_jsonable_python

from receiver.core.text import did_you_mean
from receiver.errors import ConfigurationError
from receiver.events import Event, parse_event
from receiver.events.documents.shape import ServiceModel, wire_names
from receiver.service.samples import Payload, encode, set_value, whole_family
from receiver.service.samples import job_story as payloads_of_job
from receiver.service.samples import sample as new_payload

E = TypeVar("E", bound=Event)

Order = Literal["told", "shuffled"]

_PER_PAGE = ("page", "action")


@dataclass(frozen=True)
class Sample(Generic[E]):
    """An event in two forms: `event` as a handler gets it, `body` as the service posts it."""

    event: E
    body: bytes


Deliverable = Sample[Any] | Event | bytes
"""What a test can deliver."""


@overload
def sample(wanted: type[E], *, seed: int = 0, **values: Any) -> Sample[E]: ...


@overload
def sample(wanted: str, *, seed: int = 0, **values: Any) -> Sample[Event]: ...


def sample(wanted: type[Event] | str, *, seed: int = 0, **values: Any) -> Sample[Any]:
    """Return a sample of an event class or type, or of a variant such as `crawl.page.error`, with some values set.

    `job_id="j"` and other attributes of every event are set by their names. Deeper values are set by their path on
    the wire, with `__` between keys and indexes: `data__0__metadata__statusCode=404`. Ids are made from the seed,
    so a second sample of the same type needs another seed, or it is a duplicate. A name, path or key that no event
    has raises ConfigurationError with similar ones; for such a payload, deliver bytes.
    """
    name = wanted if isinstance(wanted, str) else wanted.type_name
    if not name:
        raise ConfigurationError(f"{wanted!r} stands for several types: name one of them, as in 'crawl.page'")
    payload = new_payload(name, rng=_rng(name, seed))
    event = _sample(payload).event
    for written, value in values.items():
        first, *deeper = written.split("__")
        path = [wire_names(Event).get(first, first), *deeper]
        _require_known(written, event, path)
        set_value(payload, ".".join(path), value)
    return _sample(payload)


def job_story(
    family: str, pages: int = 20, *, order: Order = "told", lost: int = 0, seed: int = 0
) -> list[Sample[Event]]:
    """Return the events of one whole job: `crawl`, `batch_scrape` (or `batch`), `extract`, `agent` or `monitor`.

    `told` is the order in which they happen. `shuffled` is a random order in which the end of the job is not last,
    as the service may send them. `lost` is how many pages, or actions of an agent, are left out. Raises ValueError
    if there are fewer, and ConfigurationError for an unknown family.
    """
    if order not in ("told", "shuffled"):
        raise ValueError(f"the order of a story is 'told' or 'shuffled', not {order!r}")
    family = whole_family(family)
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


def as_body(given: Deliverable) -> bytes:
    """Return the body that the service would post. Raises TypeError for anything else."""
    match given:
        case Sample():
            return given.body
        case Event():
            return encode(to_jsonable_python(given.model_dump(by_alias=True, exclude_unset=True)))
        case bytes():
            return given
    raise TypeError(f"a delivery is a sample, an event or the bytes of a body, not {given!r:.100}")


def _require_known(written: str, event: Event, path: Sequence[str]) -> None:
    """Raise ConfigurationError if the last key of a path is no field of the object that it is in."""
    place: object = event
    for part in path[:-1]:
        place = _inside(place, part)
    if not isinstance(place, ServiceModel):
        return
    key, fields = path[-1], wire_names(type(place))
    if key in fields.values() or key in (place.model_extra or {}):
        return
    close = [fields[key]] if key in fields else difflib.get_close_matches(key, fields.values(), n=1, cutoff=0.7)
    if close or not type(place).names_keys_freely:
        raise ConfigurationError(f"{written}: {type(place).__name__} has no {key!r}{did_you_mean(close)}")


def _inside(place: object, part: str) -> object:
    """Return the value below a key or an index; None for one that is not there."""
    if isinstance(place, list):
        return place[int(part)] if part.isdecimal() and int(part) < len(place) else None
    if isinstance(place, ServiceModel):
        names = {wire: name for name, wire in wire_names(type(place)).items()}
        return getattr(place, names.get(part, part), None)
    return place.get(part) if isinstance(place, Mapping) else None


def _sample(payload: Payload) -> Sample[Any]:
    body = encode(payload)
    return Sample(parse_event(body), body)


def _rng(name: str, seed: int) -> random.Random:
    return random.Random(f"{name} {seed}")  # noqa: S311 - repeatable, and no secret
