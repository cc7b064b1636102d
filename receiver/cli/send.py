"""`receiver send`: send deliveries as the service does: a sample, a whole job, or the bytes of a file."""

import asyncio
import functools
import ipaddress
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import repeat
from typing import IO, Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import WholeNumber, completed, json_option, text
from receiver.cli.common.output import flush, note, write_json, write_line
from receiver.core.clock import Clock, SystemClock
from receiver.core.envelope import read_envelope
from receiver.core.text import counted, did_you_mean, escape_controls, resembling, short_id
from receiver.errors import ConfigurationError, Malformed
from receiver.events.documents.shape import ServiceModel, wire_names
from receiver.service.samples import (
    FAMILY_ALIASES,
    encode,
    family_names,
    job_story,
    near,
    sample,
    sample_names,
    set_value,
)
from receiver.service.schedule import SERVICE
from receiver.service.sender import Sender, SendResult
from receiver.settings import Settings, load_settings

_DEFAULT_PAGES = 10
MAX_CONCURRENT = 16
_FREE = "metadata."
"""The metadata of a webhook may have any keys."""


@dataclass(frozen=True, slots=True)
class SendPlan:
    """A sample or a whole job, how often to send it, and which values to change."""

    name: str
    count: int = 1
    pages: int | None = None
    changes: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        known = [*family_names(), *sample_names()]
        if self.name not in known:
            hint = near(self.name, known) or "."
            raise ConfigurationError(f"unknown event type {self.name!r}{hint} `receiver send --list` lists all")
        if self.pages is not None and self.name not in family_names():
            raise ConfigurationError(f"--pages goes with a whole job: {', '.join(family_names())}")

    def bodies(self, rng: random.Random) -> Iterator[bytes]:
        """Yield the bodies one at a time, each a new delivery."""
        for _ in range(self.count):
            for payload in self._payloads(rng):
                for path, value in self.changes:
                    set_value(payload, path, value)
                yield encode(payload)

    def _payloads(self, rng: random.Random) -> Iterator[dict[str, Any]]:
        if self.name in family_names():
            return job_story(self.name, _DEFAULT_PAGES if self.pages is None else self.pages, rng)
        return iter([sample(self.name, rng=rng)])


@dataclass(slots=True)
class SendSummary:
    """Writes a line for each delivery when its answer arrives, and counts the answers."""

    as_json: bool
    write: Callable[[str], None] = write_line
    answers: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def report(self, body: bytes, result: SendResult) -> None:
        """Count and write one delivery."""
        self.answers[escape_controls(result.answer)] += 1
        if not result.ok:
            self.failures[escape_controls(result.meaning)] += 1
        if self.as_json:
            write_json(result_fields(body, result))
        else:
            self.write(result_line(body, result))
        flush()

    def summary(self, address: str) -> str:
        """Return one line about all of them."""
        answers = ", ".join(f"{number} {answer}" for answer, number in self.answers.most_common())
        return f"{counted(self.answers.total(), 'delivery')} to {escape_controls(address)}" + (
            answers and f": {answers}"
        )

    def note_failures(self) -> None:
        """Say on standard error why deliveries failed, the most frequent reasons first."""
        for reason, number in self.failures.most_common():
            note(f"receiver: {number} not accepted: {reason}")


def _value(written: str) -> object:
    """Return a value of the command line: read as JSON, or else the text itself."""
    try:
        value: object = json.loads(written)
        encode(value)
    except (ValueError, RecursionError):
        return written
    return value


def checked_rate(written: str) -> float:
    """Accept a number of deliveries per second."""
    try:
        rate = float(written)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= 1_000_000:
        raise click.BadParameter(
            f"{escape_controls(written)} is not a rate: give deliveries per second, 0.001 or more"
        )
    return rate


def _change(written: str) -> tuple[str, object]:
    """Accept `PATH=VALUE`."""
    path, separator, value = written.partition("=")
    if not separator or not path:
        raise click.BadParameter(
            f"{escape_controls(written)} is not PATH=VALUE; an example is data.0.metadata.statusCode=404"
        )
    return path, _value(value)


def _known(change: tuple[str, object]) -> tuple[str, object]:
    """Refuse a change of a key that no event has, unless its path begins with `+`."""
    path, value = change
    last = path.rpartition(".")[2]
    if path.startswith("+"):
        return path[1:], value
    if not (last.isdigit() or path.startswith(_FREE) or last in (known := _known_keys())):
        hint = did_you_mean(resembling(last, known)) or ";"
        added = f"to add it all the same, write +{escape_controls(path)}=VALUE"
        raise click.UsageError(f"no event has a key {escape_controls(last)!r}{hint} {added}")
    return change


@functools.cache
def _known_keys() -> frozenset[str]:
    """Return the keys of all events, by the models and by the samples."""
    models: list[type[ServiceModel]] = [ServiceModel]
    names: set[str] = set()
    while models:
        model = models.pop()
        models += model.__subclasses__()
        names.update(wire_names(model))
    for one in sample_names():
        names.update(_keys_in(sample(one, rng=random.Random(0))))  # noqa: S311 - its ids are not looked at
    return frozenset(names)


def _keys_in(value: object) -> Iterator[str]:
    inner: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value
        inner = value.values()
    for one in inner:
        yield from _keys_in(one)


@click.command()
@click.argument(
    "name",
    metavar="[TYPE]",
    required=False,
    type=text,
    shell_complete=lambda _, __, begun: completed([*family_names(), *sample_names()], begun),
)
@click.option("--to", "url", metavar="URL", help="The address, instead of the receiver in the settings.")
@click.option(
    "--set",
    "changes",
    type=_change,
    metavar="PATH=VALUE",
    multiple=True,
    help="Change a value, such as data.0.metadata.statusCode=404. VALUE is JSON or text. A key that no event has "
    "needs a + before PATH.",
)
@click.option(
    "--count", type=WholeNumber(min=1), metavar="N", default=1, show_default=True, help="Send it N times."
)
@click.option("--rate", type=checked_rate, metavar="R", help="Deliveries per second, evenly spaced.")
@click.option(
    "--concurrency",
    type=WholeNumber(min=1),
    metavar="N",
    help=f"Requests at one time.  [default: 1, in order; with --rate {MAX_CONCURRENT}]",
)
@click.option(
    "--pages",
    type=WholeNumber(min=0),
    metavar="N",
    help=f"Pages of a whole job, or actions of an agent.  [default: {_DEFAULT_PAGES}]",
)
@click.option("--file", type=click.File("rb"), help="Send the exact bytes of a file; - is standard input.")
@click.option("--seed", type=int, help="Make the same ids in each run, for duplicates.")
@click.option("--list", "listing", is_flag=True, help="List all TYPEs.")
@json_option
def send(
    name: str | None,
    url: str | None,
    changes: tuple[tuple[str, object], ...],
    count: int,
    rate: float | None,
    concurrency: int | None,
    pages: int | None,
    file: IO[bytes] | None,
    seed: int | None,
    listing: bool,
    as_json: bool,
) -> int:
    """Send signed deliveries to a receiver, as the service does.

    TYPE is an event type (crawl.page), a variant of one (crawl.page.404), or the family of a whole job: crawl,
    batch_scrape, extract, agent, monitor. The first secret of the settings signs. Exit code 1 if an answer is not
    2xx.
    """
    if listing:
        return _list(as_json)
    name = name and FAMILY_ALIASES.get(name, name)
    if file is not None:
        if name or changes or pages is not None:
            raise click.UsageError("--file sends the bytes as they are: leave out TYPE, --set and --pages")
        bodies: Iterable[bytes] = repeat(file.read(), count)
    elif name is None:
        raise click.UsageError("give a TYPE or --file; --list lists the types")
    else:
        # Ids of test deliveries need not be secret, and must be the same for the same seed.
        rng = random.Random(None if seed is None else f"{seed} {name} {pages}")  # noqa: S311
        bodies = SendPlan(name, count, pages, tuple(map(_known, changes))).bodies(rng)
    sender = make_sender(load_settings(), url, concurrency or (MAX_CONCURRENT if rate else 1))
    summary = SendSummary(as_json)

    async def send_all() -> None:
        async with sender:
            await sender.send_all(bodies, summary.report, rate=rate)

    asyncio.run(send_all())
    if not as_json:
        write_line(summary.summary(sender.address))
    summary.note_failures()
    return FAILED if summary.failures else OK


def make_sender(
    settings: Settings,
    url: str | None,
    concurrency: int,
    *,
    timeout: timedelta = SERVICE.timeout,
    clock: Clock | None = None,
) -> Sender:
    """Return a sender with the secrets of these settings; by default it sends to their receiver."""
    secrets, tokens = settings.plain_secrets(), settings.plain_tokens()
    return Sender(
        url or default_url(settings),
        secret=secrets[0] if secrets else None,
        signature_header=settings.signature_header,
        token=(settings.token_header, tokens[0]) if settings.token_header and tokens else None,
        timeout=timeout,
        concurrency=concurrency,
        clock=clock,
    )


def default_url(settings: Settings) -> str:
    """Return the address of a receiver that runs on this machine with these settings."""
    if settings.port == 0:
        raise ConfigurationError("the settings have port 0, any free port: give the address with --to URL")
    return f"http://{_reachable(settings.host)}:{settings.port}{settings.path}"


def result_line(body: bytes, result: SendResult) -> str:
    """Return a line for people about one delivery, safe for a terminal."""
    kind, key = _envelope(body)
    status = "" if result.status is None else f"{result.status} "
    milliseconds = f"{result.seconds * 1000:.0f} ms"
    return escape_controls(
        f"→ {kind:<24} {short_id(result.key or key):<15} {status}{result.answer}  {milliseconds}"
    )


def result_fields(body: bytes, result: SendResult) -> dict[str, Any]:
    """Return one delivery as JSON has it."""
    kind, key = _envelope(body)
    return {
        "type": kind,
        "id": result.key or key,
        "ok": result.ok,
        "status": result.status,
        "answer": result.answer,
        "seconds": round(result.seconds, 6),
        "meaning": result.meaning or None,
    }


def _list(as_json: bool) -> int:
    entries = [("job", name) for name in family_names()] + [("event", name) for name in sample_names()]
    for kind, name in entries:
        if as_json:
            write_json({"name": name, "kind": kind})
        else:
            write_line(f"{name:<32} {'a whole job' if kind == 'job' else 'one event'}")
    return OK


def _reachable(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return str(address) if address.version == 4 else f"[{address}]"


def _envelope(body: bytes) -> tuple[str, str]:
    """Return type and id of a body, or marks for a body without an envelope."""
    try:
        delivery = read_envelope((), body, received_at=SystemClock().now())
    except Malformed:
        return "(no envelope)", "-"
    return delivery.type, delivery.key
