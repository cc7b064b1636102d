"""Payloads as the service makes them, with new ids: single events, and the events of whole jobs."""

import functools
import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any

from receiver.core.text import did_you_mean, resembling
from receiver.errors import ConfigurationError

Payload = dict[str, Any]

FAMILY_ALIASES = {"batch": "batch_scrape"}
"""Short names of families, which are understood and not shown."""

_DERIVED: dict[str, tuple[str, Payload]] = {
    "batch_scrape.failed": (
        "crawl.failed",
        {"type": "batch_scrape.failed", "error": "Batch scrape failed: no URL could be queued"},
    ),
}
"""Documented types of which no payload was recorded: another sample with other values."""

_DELIVERY_IDS = frozenset({"webhookId", "batchId", "event_id"})
_JOB_IDS = frozenset({"id", "jobId", "checkId", "extractId", "crawl_id"})
_SCRAPE_IDS = frozenset({"scrapeId", "previousScrapeId", "currentScrapeId", "job_id"})

_SUBJECTS = [
    "Chain",
    "Brake",
    "Tyre",
    "Saddle",
    "Gear",
    "Wheel",
    "Battery",
    "Light",
    "Lock",
    "Mudguard",
    "Pedal",
    "Frame",
    "Pannier",
    "Trailer",
]
_KINDS = ("service", "prices", "winter guide", "buying guide", "fault finding", "recall notice", "workshop dates")
_TIPS = (
    "Wash off road salt and let it dry completely.",
    "Check every bolt against the torque table.",
    "Order spare parts two weeks ahead.",
    "Bring the bike before **09:30** to have it back the same evening.",
    "A test ride of ten minutes shows most faults.",
    "Keep the receipt: work is guaranteed for a year.",
)
_PAGE_ERRORS = (
    "Scrape timed out",
    "Scrape resulted in unsupported file: application/zip",
    "All scraping engines failed! -- Double check the URL to make sure it's not broken.",
)


def sample_names() -> list[str]:
    """Return the name of every sample: an event type, or a type and a variant such as `crawl.page.404`."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted({name.removesuffix(".json") for name in files if name.endswith(".json")} | _DERIVED.keys())


def family_names() -> list[str]:
    """Return the families of jobs that `job_story` knows."""
    return list(_STORIES)


def whole_family(name: str) -> str:
    """Return the family with this name: `batch` is `batch_scrape`. An unknown one is a ConfigurationError."""
    family = FAMILY_ALIASES.get(name, name)
    if family not in _STORIES:
        raise ConfigurationError(f"unknown family {name!r}; known are {', '.join(_STORIES)}")
    return family


def load_sample(name: str) -> Payload:
    """Return a sample as it was recorded. A ConfigurationError for an unknown name suggests similar ones."""
    if name not in sample_names():
        raise ConfigurationError(f"unknown sample {name!r}{near(name, sample_names())}")
    source, changes = _DERIVED.get(name, (name, {}))
    payload: Payload = json.loads(_text(source)) | changes
    return payload


def sample(name: str, *, rng: random.Random, job_id: str | None = None) -> Payload:
    """Return a sample as a new delivery of a new job, or of the job named.

    The ids of delivery, job and scrapes are new, and equal where the sender's are. Ids of things that live longer,
    such as a monitor, stay. A sample without an id stays without.
    """
    payload: Payload = _renewed(load_sample(name), rng, job_id or new_job_id(rng))
    return payload


def new_job_id(rng: random.Random) -> str:
    """Return an id as jobs and scrapes have it: a UUID of version 7, with a time in August 2026."""
    milliseconds = 0x019F2C100000 + rng.getrandbits(28)
    number = milliseconds << 80 | 0x7 << 76 | rng.getrandbits(12) << 64 | 0b10 << 62 | rng.getrandbits(62)
    return str(uuid.UUID(int=number))


def job_story(family: str, pages: int, rng: random.Random) -> Iterator[Payload]:
    """Return the events of one whole job, in the order in which they happen.

    A crawl or batch has `pages` different pages between its start and its end, some of them faulty. A monitor has
    as many page results before its check, and an agent as many actions. An extraction only counts them.
    """
    family = whole_family(family)
    return _STORIES[family](pages, rng, new_job_id(rng))


def story_length(family: str, pages: int) -> int:
    """Return how many events `job_story` gives. An unknown family is a ConfigurationError."""
    family = whole_family(family)
    return _AROUND_PAGES[family] + (0 if family == "extract" else pages)


def set_value(payload: Payload, path: str, value: object) -> None:
    """Set the value at `path`, which consists of keys and list indexes such as `data.0.metadata.statusCode`.

    The last key may be new. A ConfigurationError names the first part before it that does not exist.
    """
    *parents, last = path.split(".")
    place: Any = payload
    for depth, part in enumerate(parents):
        place = place[_step(place, part, parents[:depth], path, new=False)]
    place[_step(place, last, parents, path, new=True)] = value


def encode(payload: object) -> bytes:
    """Return JSON as JSON.stringify writes it, in UTF-8: no spaces, a lone surrogate as an escape.

    Raises ValueError for a number that JSON cannot hold.
    """
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def near(name: str, known: Sequence[str]) -> str:
    """Return a hint at known names that resemble a wrong one; empty without one."""
    close = resembling(name, known)
    close = close or [one for one in known if one.partition(".")[0] == name.partition(".")[0]]
    return did_you_mean(close)


@functools.cache
def _text(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")


def _renewed(value: Any, rng: random.Random, job_id: str) -> Any:
    if isinstance(value, list):
        return [_renewed(item, rng, job_id) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _renewed_id(key, rng, job_id) if isinstance(item, str) and _is_id(key) else _renewed(item, rng, job_id)
        for key, item in value.items()
    }


def _is_id(key: str) -> bool:
    return key in _DELIVERY_IDS or key in _JOB_IDS or key in _SCRAPE_IDS


def _renewed_id(key: str, rng: random.Random, job_id: str) -> str:
    if key in _DELIVERY_IDS:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return job_id if key in _JOB_IDS else new_job_id(rng)


def _step(place: Any, part: str, before: list[str], path: str, *, new: bool) -> str | int:
    """Return the key or index of this place that `part` names."""
    where = ".".join(before) or "the payload"
    if isinstance(place, dict):
        if part in place or (new and part):
            return part
        raise ConfigurationError(f"{path}: {where} has no {part!r}; it has {', '.join(place) or 'nothing'}")
    if not isinstance(place, list):
        raise ConfigurationError(f"{path}: {where} is neither an object nor a list, so it has no {part!r}")
    if part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(place):
        return int(part)
    raise ConfigurationError(f"{path}: {where} is a list of {len(place)} and has no {part!r}")


def _paged_job(family: str, pages: int, rng: random.Random, job_id: str) -> Iterator[Payload]:
    yield sample(f"{family}.started", rng=rng, job_id=job_id)
    for number in range(pages):
        yield _page(family, number, rng, job_id)
    yield sample(f"{family}.completed", rng=rng, job_id=job_id)


def _page(family: str, number: int, rng: random.Random, job_id: str) -> Payload:
    """Return page `number` of a job. By its number some pages are faulty, so that longer jobs have such pages."""
    url = _url(number)
    if number % 9 == 5:
        payload = sample(f"{family}.page.error", rng=rng, job_id=job_id)
        payload["data"][0]["metadata"]["sourceURL"] = url
        return payload | {"error": rng.choice(_PAGE_ERRORS)}
    if number % 20 == 8:
        payload = sample("crawl.page.404", rng=rng, job_id=job_id)
        payload |= {"type": f"{family}.page", "metadata": load_sample(f"{family}.started")["metadata"]}
    else:
        payload = sample(f"{family}.page", rng=rng, job_id=job_id)
        _fill(payload["data"][0], number, rng)
    payload["data"][0]["metadata"] |= {"sourceURL": url, "url": url, "ogUrl": url}
    return payload


def _fill(document: Payload, number: int, rng: random.Random) -> None:
    title = _title(number)
    document["markdown"] = _markdown(title, number, rng)
    document["metadata"] |= {
        "title": title,
        "ogTitle": title,
        "description": f"{title} at Harbour Cycles, a small repair shop.",
    }


def _title(number: int) -> str:
    turn, place = divmod(number, len(_SUBJECTS) * len(_KINDS))
    title = f"{_SUBJECTS[place % len(_SUBJECTS)]} {_KINDS[place % len(_KINDS) - place // len(_SUBJECTS)]}"
    return f"{title}, part {turn + 1}" if turn else title


def _url(number: int) -> str:
    return "https://example.com/" + _title(number).lower().replace(",", "").replace(" ", "-")


def _markdown(title: str, number: int, rng: random.Random) -> str:
    tips = "\n".join(f"- {tip}" for tip in rng.sample(_TIPS, 3))
    rows = "\n".join(
        f"| {job} | {rng.randrange(10, 90)} min | £{rng.randrange(9, 99)} |" for job in ("Check", "Repair")
    )
    following = f"See also [{_title(number + 1)}]({_url(number + 1)})."
    return f"# {title}\n\n{tips}\n\n| Job | Typical time | Price |\n| --- | --- | --- |\n{rows}\n\n{following}\n"


def _extraction(pages: int, rng: random.Random, job_id: str) -> Iterator[Payload]:
    yield sample("extract.started", rng=rng, job_id=job_id)
    completed = sample("extract.completed", rng=rng, job_id=job_id)
    completed["data"][0]["totalUrlsScraped"] = pages
    yield completed


def _agent_run(actions: int, rng: random.Random, job_id: str) -> Iterator[Payload]:
    yield sample("agent.started", rng=rng, job_id=job_id)
    credits_used = 0
    for number in range(actions):
        action = sample("agent.action", rng=rng, job_id=job_id)
        credits_used += rng.randint(1, 5)
        action["data"][0]["creditsUsed"] = credits_used
        action["data"][0]["input"]["url"] = _url(number)
        yield action
    completed = sample("agent.completed", rng=rng, job_id=job_id)
    completed["data"][0]["creditsUsed"] = credits_used
    yield completed


def _monitor_check(pages: int, rng: random.Random, check_id: str) -> Iterator[Payload]:
    counts = {"totalPages": pages, "same": 0, "changed": 0, "new": 0, "removed": 0, "error": 0}
    for number in range(pages):
        result = sample(_page_result(number), rng=rng, job_id=check_id)
        result["data"][0]["url"] = _url(number)
        counts[result["data"][0]["status"]] += 1
        yield result
    variant = ".partial" if counts["error"] else ""
    check = sample(f"monitor.check.completed{variant}", rng=rng, job_id=check_id)
    check["data"][0]["summary"] = counts
    yield check


def _page_result(number: int) -> str:
    """Return the sample for page `number` of a check: first a change, then mostly unchanged pages."""
    others = {0: "", 4: ".json", 5: ".new", 8: ".error"}
    return "monitor.page" + others.get(number % 12, ".same")


_STORIES: dict[str, Callable[[int, random.Random, str], Iterator[Payload]]] = {
    "crawl": functools.partial(_paged_job, "crawl"),
    "batch_scrape": functools.partial(_paged_job, "batch_scrape"),
    "extract": _extraction,
    "agent": _agent_run,
    "monitor": _monitor_check,
}

_AROUND_PAGES = {"crawl": 2, "batch_scrape": 2, "extract": 2, "agent": 2, "monitor": 1}
"""How many events a job has beside its pages or actions: its start and its end."""
