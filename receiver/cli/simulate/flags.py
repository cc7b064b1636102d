"""A flag for each setting of a scenario; it replaces the setting of the file."""

import functools
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, BinaryIO

import click

from receiver.core.text import escape_controls
from receiver.core.units import parse_duration

Command = Callable[..., Any]

_PER = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:/(s|sec|m|min|h))?", re.ASCII)
_JOB = re.compile(r"(?P<family>[a-z_]+):(?P<pages>\d{1,9})(?:@(?P<at>[0-9a-z.]+))?(?::(?P<pace>[^:]+))?", re.ASCII)


def rate(written: str) -> float:
    """Accept deliveries per time: `5/s`, `300/min`, `10/h`, or a number for each second."""
    found = _RATE.fullmatch(written)
    if not found:
        raise click.BadParameter(f"{escape_controls(written)} is not a rate; write 5/s, 300/min or 10/h")
    return float(Fraction(found[1]) / _PER[found[2] or "s"])


def job(written: str) -> dict[str, Any]:
    """Accept `FAMILY:PAGES[@AT][:PACE]`."""
    found = _JOB.fullmatch(written)
    if not found:
        raise click.BadParameter(
            f"{escape_controls(written)} is not a job; write crawl:200, crawl:200@10m or crawl:200@10m:2/s"
        )
    given: dict[str, Any] = {"family": found["family"], "pages": int(found["pages"]), "at": found["at"]}
    given["pace"] = None if found["pace"] is None else rate(found["pace"])
    return {key: value for key, value in given.items() if value is not None}


def outage(written: str) -> dict[str, Any]:
    """Accept `FROM..TO[:KIND]`."""
    start, dots, rest = written.partition("..")
    end, _, what = rest.partition(":")
    kind, _, status = what.partition("=")
    if not (start and dots and end) or (status and not status.isdecimal()):
        raise click.BadParameter(
            f"{escape_controls(written)} is not an outage; write 10m..32m, 10m..32m:hang or 10m..32m:status=503"
        )
    if _ends_first(start, end):
        raise click.BadParameter(f"{escape_controls(written)} ends before it begins; write {end}..{start}")
    given = {"from": start, "to": end, "kind": kind or "refuse"}
    return given | ({"status": int(status)} if status else {})


def _ends_first(start: str, end: str) -> bool:
    """Tell whether these are two durations in the wrong order; what is no duration is told elsewhere."""
    try:
        return parse_duration(end) < parse_duration(start)
    except ValueError:
        return False


def latency(written: str) -> object:
    """Accept `P50` or `P50..P99`."""
    median, separator, high = written.partition("..")
    return {"p50": median, "p99": high} if separator else written


def pauses(written: str) -> list[str]:
    """Accept durations separated by commas."""
    return [part.strip() for part in written.split(",")]


_FLAGS = {
    "seed": ("seed", "--seed"),
    "at": ("arrivals.at", "--at"),
    "rate": ("arrivals.rate", "--rate"),
    "duration": ("arrivals.duration", "--duration"),
    "poisson": ("arrivals.poisson", "--poisson"),
    "jobs": ("arrivals.jobs", "--job"),
    "latency": ("endpoint.latency", "--latency"),
    "error_rate": ("endpoint.error_rate", "--error-rate"),
    "capacity": ("endpoint.capacity", "--capacity"),
    "outages": ("outage", "--outage"),
    "timeout": ("sender.timeout", "--timeout"),
    "pauses": ("sender.pauses", "--pauses"),
    "duplicates": ("faults.duplicates", "--duplicates"),
    "reordered": ("faults.reordered", "--reordered"),
    "forged": ("faults.forged", "--forged"),
    "truncated": ("faults.truncated", "--truncated"),
    "slow": ("faults.slow", "--slow"),
}
"""The key in a scenario file, and the flag, of each argument."""

ARRIVALS = (
    click.option(
        "--at", multiple=True, metavar="TIME", help="Create a delivery at this time, such as 90s or 1h30m."
    ),
    click.option(
        "--rate", type=rate, metavar="N/s", help="Create deliveries evenly, such as 5/s, 300/min or 10/h."
    ),
    click.option("--duration", metavar="TIME", help="How long the rate lasts.  [default: 1h]"),
    click.option("--poisson/--even", default=None, help="Space the deliveries of --rate at random, or evenly."),
    click.option(
        "--job",
        "jobs",
        multiple=True,
        type=job,
        metavar="FAMILY:PAGES",
        help="Create the deliveries of a job, such as crawl:200, crawl:200@10m or crawl:200@10m:2/s.",
    ),
    click.option("--seed", type=int, metavar="N", help="Seed of all random values.  [default: 0]"),
)
ENDPOINT = (
    click.option(
        "--latency",
        type=latency,
        metavar="TIME",
        help="How long the endpoint works on a request, such as 200ms, or 200ms..12s for p50..p99.",
    ),
    click.option(
        "--error-rate", type=float, metavar="SHARE", help="Share of requests that the endpoint answers with 500."
    ),
    click.option(
        "--capacity", type=int, metavar="N", help="Requests that the endpoint works on at once; others wait."
    ),
)
OUTAGES = (
    click.option(
        "--outage",
        "outages",
        multiple=True,
        type=outage,
        metavar="FROM..TO[:KIND]",
        help="An outage, such as 10m..32m, 10m..32m:hang or 10m..32m:status=503.",
    ),
)
SENDER = (
    click.option("--timeout", metavar="TIME", help="How long the service waits for an answer.  [default: 10s]"),
    click.option(
        "--pauses", type=pauses, metavar="TIMES", help="Retry delays of the service.  [default: 1m,5m,15m]"
    ),
)
FAULTS_OF_SENDER = {
    "duplicates": "are sent again after their delivery",
    "reordered": "are delayed at first, up to the first retry delay",
    "forged": "are sent together with a forged request",
    "truncated": "are cut in the first attempt",
    "slow": "upload slowly in the first attempt, half of them too slowly",
}
"""What happens to some deliveries, by the name of the argument."""
FAULTS = tuple(
    click.option(f"--{name}", type=float, metavar="SHARE", help=f"With --to: share of deliveries that {fault}.")
    for name, fault in FAULTS_OF_SENDER.items()
)
TRAFFIC = click.option(
    "--traffic", "file", type=click.File("rb"), metavar="FILE", help="A scenario, as for `receiver simulate`."
)


def scenario_options(*flags: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add these flags, and collect them and the TOML of the argument `file` into one argument `scenario`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def read(*args: Any, file: BinaryIO | None, **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in _FLAGS if name in kwargs}
            return command(*args, scenario=_scenario(file, given), **kwargs)

        decorated: Command = read
        for flag in reversed(flags):
            decorated = flag(decorated)
        return decorated

    return decorate


def _scenario(file: BinaryIO | None, given: Mapping[str, Any]) -> Any:
    from receiver.service.simulator.scenario import read_toml, scenario_of, with_values

    flags = {name: value for name, value in given.items() if value is not None and value != ()}
    raw = {} if file is None else read_toml(file)
    raw = with_values(raw, {_FLAGS[name][0]: value for name, value in flags.items()})
    where = "the scenario" if file is None else escape_controls(file.name)
    return scenario_of(raw, file=where, flags=dict(_FLAGS[name] for name in flags))
