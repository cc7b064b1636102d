"""`receiver simulate`: an outage and the retries of the service, in virtual time."""

import functools
import re
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import Command, Number, Option, duration, json_option, store_option, text, together
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import flush, note, write_json, write_line
from receiver.cli.simulate.output import STDOUT, figures, opened, print_result, tracing
from receiver.core.text import counted, did_you_mean, escape_controls, resembling
from receiver.core.units import in_words, parse_duration
from receiver.service.simulator.page import page, picture
from receiver.service.simulator.questions import (
    KINDS,
    Advice,
    Split,
    Survived,
    Trial,
    advise,
    always_survived,
    load,
    trials,
)
from receiver.service.simulator.questions import survive as survived_outages
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.run import simulate as attempts_of
from receiver.service.simulator.scenario import Faults, OutageKind, Scenario
from receiver.service.simulator.words import described

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
    """Return whether these are two durations in the wrong order. Other text is an error of the scenario."""
    try:
        return parse_duration(end) < parse_duration(start)
    except ValueError:
        return False


def latency(written: str) -> object:
    """Accept `P50` or `P50..P99`."""
    median, separator, high = written.partition("..")
    return {"p50": median, "p99": high} if separator else written


_FLAGS: dict[str, tuple[str, str]] = {}
"""The key in a scenario file, and the flag, of each argument."""


def _flag(key: str, flag: str, *, name: str = "", **more: Any) -> Option:
    """Return the option for a key of a scenario file."""
    first = flag.partition("/")[0]
    name = name or first.strip("-").replace("-", "_")
    _FLAGS[name] = (key, first)
    return click.option(flag, name, **more)


OUTAGES = (
    _flag(
        "outage",
        "--outage",
        name="outages",
        multiple=True,
        type=outage,
        metavar="FROM..TO[:KIND]",
        help="An outage, such as 10m..32m, 10m..32m:hang or 10m..32m:status=503.",
    ),
)
ARRIVALS = (
    _flag(
        "arrivals.at",
        "--at",
        multiple=True,
        metavar="TIME",
        help="Create a delivery at this time, such as 90s or 1h30m.",
    ),
    _flag(
        "arrivals.rate",
        "--rate",
        type=rate,
        metavar="N/s",
        help="Create deliveries evenly, such as 5/s, 300/min or 10/h.",
    ),
    _flag("arrivals.duration", "--duration", metavar="TIME", help="How long the rate lasts.  [default: 1h]"),
    _flag(
        "arrivals.poisson",
        "--poisson/--even",
        default=None,
        help="Space the deliveries of --rate at random, or evenly.",
    ),
    _flag(
        "arrivals.jobs",
        "--job",
        name="jobs",
        multiple=True,
        type=job,
        metavar="FAMILY:PAGES",
        help="Create the deliveries of a job, such as crawl:200, crawl:200@10m or crawl:200@10m:2/s.",
    ),
    _flag("seed", "--seed", type=int, metavar="N", help="Seed of all random values.  [default: 0]"),
)
ENDPOINT = (
    _flag(
        "endpoint.latency",
        "--latency",
        type=latency,
        metavar="TIME",
        help="How long the endpoint works on a request, such as 200ms, or 200ms..12s for p50..p99.",
    ),
    _flag(
        "endpoint.error_rate",
        "--error-rate",
        type=float,
        metavar="SHARE",
        help="Share of requests that the endpoint answers with 500.",
    ),
    _flag(
        "endpoint.capacity",
        "--capacity",
        type=int,
        metavar="N",
        help="Requests that the endpoint works on at once; others wait.",
    ),
)
SENDER = (
    _flag(
        "sender.timeout",
        "--timeout",
        metavar="TIME",
        help="How long the service waits for an answer.  [default: 10s]",
    ),
    _flag(
        "sender.pauses",
        "--pauses",
        type=lambda written: [part.strip() for part in written.split(",")],
        metavar="TIMES",
        help="Retry delays of the service.  [default: 1m,5m,15m]",
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
    _flag(
        f"faults.{name}",
        f"--{name}",
        type=float,
        metavar="SHARE",
        help=f"With --to: share of deliveries that {fault}.",
    )
    for name, fault in FAULTS_OF_SENDER.items()
)
TRAFFIC = click.option(
    "--traffic", "file", type=click.File("rb"), metavar="FILE", help="A scenario, as for `receiver simulate`."
)


def scenario_options(*flags: Option) -> Option:
    """Add these flags, and collect them and the TOML of the argument `file` into one argument `scenario`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def read(*args: Any, file: BinaryIO | None, **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in _FLAGS if name in kwargs}
            return command(*args, scenario=_scenario(file, given), **kwargs)

        return together(*flags)(read)

    return decorate


def _scenario(file: BinaryIO | None, given: Mapping[str, Any]) -> Any:
    from receiver.service.simulator.scenario import read_toml, scenario_of, with_values

    flags = {name: value for name, value in given.items() if value is not None and value != ()}
    raw = {} if file is None else read_toml(file)
    raw = with_values(raw, {_FLAGS[name][0]: value for name, value in flags.items()})
    where = "the scenario" if file is None else escape_controls(file.name)
    return scenario_of(raw, file=where, flags=dict(_FLAGS[name] for name in flags))


_SUBCOMMANDS = CommandGroup("simulate")


class _Simulate(click.Command):
    """Runs a subcommand if its name comes first. A click group could not take a scenario there."""

    subcommands = _SUBCOMMANDS

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        context = click.Context(self, parent, info_name=info_name)
        if args and (subcommand := _SUBCOMMANDS.get_command(context, args[0])):
            return subcommand.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        is_word = args and not args[0].startswith("-") and not Path(args[0]).exists()
        if is_word and (close := resembling(args[0], _SUBCOMMANDS.list_commands(context))):
            name = escape_controls(args[0])
            raise click.UsageError(f"{name!r} is neither a file nor a subcommand{did_you_mean(close)}", context)
        return super().make_context(info_name, args, parent=parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Subcommands"):
            formatter.write_dl(list(_SUBCOMMANDS.summaries(ctx, formatter.width - 6)))


@click.command(cls=_Simulate)
@click.argument("file", metavar="[SCENARIO.toml]", type=click.File("rb"), required=False)
@scenario_options(*OUTAGES, *ARRIVALS, *ENDPOINT, *SENDER, *FAULTS)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with all figures.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    is_flag=False,
    flag_value=str(STDOUT),
    metavar="[FILE]",
    help="Write one JSON object per attempt to FILE, or to standard output.",
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page with pictures."
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the first picture."
)
@click.option("--to", "url", type=text, metavar="URL", help="Send signed deliveries to a running receiver instead.")
@click.option("--speed", type=Number(0.1, 1000), metavar="N", help="With --to: let time pass N times as fast.")
@click.option(
    "--play-outages", is_flag=True, help="With --to: send nothing during outages, and count each attempt as failed."
)
@click.option("--no-check", is_flag=True, help="With --to: do not check the receiver's store at the end.")
@store_option
def simulate(
    scenario: Scenario, as_json: bool, trace: Path | None, html: Path | None, svg: Path | None, **live: Any
) -> int:
    """Simulate an outage and the retries of the service.

    SCENARIO.toml and flags describe the scenario; a flag replaces the setting of the file. By default one delivery
    is created each second for an hour. Nothing is sent and no time passes. With --to URL real deliveries are sent
    in real time, and the exit code is 1 if the receiver's store lacks something at the end.
    """
    if as_json and trace == STDOUT:
        raise click.UsageError("--json and --trace both write to standard output: give --trace a FILE")
    if live["url"] is not None:
        if html or svg:
            raise click.UsageError("--html and --svg do not go with --to")
        from receiver.cli.simulate.live import LiveOptions, run_live  # httpx and the store take long to load

        return run_live(scenario, LiveOptions(as_json=as_json, trace=trace, **live))
    _check_not_live(scenario, live)
    report = SimulationReport(scenario)
    with tracing(trace) as write_attempt:
        for attempt in attempts_of(scenario):
            report.add(attempt)
            write_attempt(attempt, {})
    for path, draw in ((html, page), (svg, picture)):
        if path is not None:
            with opened(path) as file:
                file.write(draw(scenario, report).encode())
    if as_json:
        write_json(report.as_json())
    elif trace != STDOUT:
        print_result(scenario, report, described(scenario), figures(report))
    return OK


def _check_not_live(scenario: Scenario, live: Mapping[str, Any]) -> None:
    """Raise UsageError for options that need --to; say which part of a file a simulation leaves out."""
    flags = click.get_current_context().params
    faults = [name for name in FAULTS_OF_SENDER if flags[name] is not None]
    if given := [*faults, *(name for name, value in live.items() if value)]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --to URL")
    if scenario.faults != Faults():
        note("a simulation has no faults of the sender: add --to URL")


def _length(written: str) -> timedelta:
    if not (length := duration(written)):
        raise click.BadParameter("it must be longer than 0")
    return length


@_SUBCOMMANDS.command()
@TRAFFIC
@scenario_options(*ARRIVALS, *SENDER)
@json_option
def survive(scenario: Scenario, as_json: bool) -> int:
    """Find the longest outage that loses nothing.

    It depends on the time at which the outage begins. The result is simulated to the microsecond and compared
    with the theory, for an endpoint that refuses connections and for one that hangs. Outside the outage the
    endpoint answers at once. Exit code 1 if simulation and theory differ.
    """
    agree = True
    if not as_json:
        write_line(f"{'the endpoint':<20} {'when the outage begins':<34} {'simulated':>12} {'theory':>12}")
    for one in survived_outages(scenario):
        agree = agree and one.simulated == one.theory
        if as_json:
            write_json(_survived_fields(one))
        else:
            longest, theory = in_words(one.simulated), in_words(one.theory)
            write_line(f"{_BEHAVIOURS[one.kind]:<20} {_beginning(one):<34} {longest:>12} {theory:>12}")
        flush()
    if not as_json:
        for kind in KINDS:
            always = in_words(always_survived(kind, scenario.schedule))
            outage = f"that {_BEHAVIOURS[kind]} for at most {always}"
            write_line(f"An endpoint {outage} loses nothing, unless attempts failed just before.")
    return OK if agree else FAILED


def _beginning(one: Survived) -> str:
    if one.next_in is None:
        return f"just after attempt {one.failed} has failed"
    return f"{in_words(one.next_in)} before the next delivery" if one.next_in else "as a delivery is created"


def _survived_fields(one: Survived) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "next_delivery_in_s": None if one.next_in is None else one.next_in.total_seconds(),
        "failed_before": one.failed,
        "simulated_s": one.simulated.total_seconds(),
        "theory_s": one.theory.total_seconds(),
    }


@_SUBCOMMANDS.command()
@click.option("--length", type=_length, metavar="TIME", required=True, help="How long the work takes, such as 25m.")
@click.option(
    "--from", "start", type=duration, metavar="TIME", default="0s", show_default=True, help="When it begins."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in KINDS]),
    default=OutageKind.REFUSE.value,
    show_default=True,
    help="How the endpoint behaves during the work.",
)
@TRAFFIC
@scenario_options(*ARRIVALS, *ENDPOINT, *OUTAGES, *SENDER)
@json_option
def maintenance(scenario: Scenario, length: timedelta, start: timedelta, kind: str, as_json: bool) -> int:
    """Find how to split planned work so that it loses nothing.

    The command simulates the work in one part, and then in several: parts of equal length, with the rest before or
    after them and with the endpoint up for 1 to 30 minutes between them. It prints the split that ends first of
    those that lose no more than without the work. Exit code 1 if there is none.
    """
    advice = advise(scenario, length, start=start, kind=OutageKind(kind))
    if as_json:
        write_json(_advice_fields(advice))
    else:
        write_line(_advice_sentence(advice, length))
    return OK if advice.best else FAILED


def _advice_sentence(advice: Advice, length: timedelta) -> str:
    at_once, best = advice.at_one_go, advice.best
    loss = f"loses {at_once.lost:,} of {counted(at_once.deliveries, 'delivery')}"
    if advice.without.lost:
        loss += f" ({advice.without.lost:,} are lost without it)"
    begin = f"{in_words(length)} in one part {loss}"
    if best is None:
        return f"{begin}; each of {advice.tried:,} ways to do it loses more than without it: make it shorter."
    if len(best.parts) == 1:
        return f"{begin}: there is no need to split it."
    less = "no more than without it" if advice.without.lost else "nothing"
    return f"{begin}; {_parts(best)} it loses {less}, and is over after {in_words(best.takes)}."


def _parts(split: Split) -> str:
    parts = ", ".join(in_words(part) for part in split.parts)
    return f"in {len(split.parts)} parts of {parts} with {in_words(split.up)} up between them"


def _advice_fields(advice: Advice) -> dict[str, Any]:
    best = advice.best
    return {
        "deliveries": advice.at_one_go.deliveries,
        "lost_without": advice.without.lost,
        "lost_at_one_go": advice.at_one_go.lost,
        "best": best
        and {
            "parts_s": [part.total_seconds() for part in best.parts],
            "up_s": best.up.total_seconds(),
            "takes_s": best.takes.total_seconds(),
        },
        "tried": advice.tried,
    }


_BEHAVIOURS = {OutageKind.REFUSE: "refuses connections", OutageKind.HANG: "hangs"}


@_SUBCOMMANDS.command()
@TRAFFIC
@scenario_options(*ARRIVALS, *ENDPOINT, *OUTAGES, *SENDER)
@json_option
def capacity(scenario: Scenario, as_json: bool) -> int:
    """Find the smallest capacity that recovers from an outage.

    Capacity is how many requests the endpoint works on at once; the others wait. A request that waits longer than
    the service's time-out is sent again, so that a small endpoint stays overloaded after the outage. It has
    recovered if no request waits that long in the last tenth of the traffic. Exit code 1 if no capacity recovers.
    """
    needed = load(scenario)
    tried = sorted(trials(scenario), key=lambda one: one.capacity)
    smallest = next((one for one in tried if one.drained_at is not None), None)
    for trial in tried:
        if as_json:
            write_json(_trial_fields(trial))
        else:
            write_line(f"{counted(trial.capacity, 'request'):>20} at once: {_fate(trial)}")
    if smallest is not None and not as_json:
        below = (
            f"Below {smallest.capacity:,} at once it never drains." if smallest.capacity > 1 else "One is enough."
        )
        write_line(
            f"{below} The traffic alone keeps {needed.alone:.3g} "
            f"busy, and {needed.at_most:.3g} if every attempt of every delivery is made."
        )
    return FAILED if smallest is None else OK


def _fate(trial: Trial) -> str:
    if trial.drained_at is None:
        return "never drains"
    return f"drained at {in_words(trial.drained_at)}" if trial.drained_at else "nothing waits too long"


def _trial_fields(trial: Trial) -> dict[str, Any]:
    drained_at = trial.drained_at
    return {
        "capacity": trial.capacity,
        "drains": drained_at is not None,
        "drained_at_s": None if drained_at is None else drained_at.total_seconds(),
    }
