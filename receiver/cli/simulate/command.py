"""`receiver simulate`: an outage and the retries of the service, in virtual time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filters import Number, store_option, text
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.output import note, write_json
from receiver.cli.simulate.flags import (
    ARRIVALS,
    ENDPOINT,
    FAULTS,
    FAULTS_OF_SENDER,
    OUTAGES,
    SENDER,
    scenario_options,
)
from receiver.cli.simulate.output import STDOUT, opened, tracing
from receiver.core.text import did_you_mean, escape_controls, resembling
from receiver.service.simulator.page import page, picture
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.run import simulate as attempts_of
from receiver.service.simulator.scenario import Faults, Scenario

_SUBCOMMANDS = LazyGroup(
    "simulate",
    subcommands={
        "survive": "receiver.cli.simulate.questions:survive",
        "maintenance": "receiver.cli.simulate.questions:maintenance",
        "capacity": "receiver.cli.simulate.questions:capacity",
    },
)


class _Simulate(click.Command):
    """Runs a subcommand if its name comes first. A click group could not take a scenario in that place."""

    subcommands = _SUBCOMMANDS

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        context = click.Context(self, parent, info_name=info_name)
        if args and (subcommand := _SUBCOMMANDS.get_command(context, args[0])):
            return subcommand.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        if args and not args[0].startswith("-") and not Path(args[0]).exists():
            _suggest_subcommand(args[0], context)
        return super().make_context(info_name, args, parent=parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Subcommands"):
            formatter.write_dl(list(_SUBCOMMANDS.summaries(ctx, formatter.width - 6)))


def _suggest_subcommand(word: str, context: click.Context) -> None:
    """Raise UsageError if a word, which is no file, resembles a subcommand."""
    if close := resembling(word, _SUBCOMMANDS.list_commands(context)):
        name = escape_controls(word)
        raise click.UsageError(f"{name!r} is neither a file nor a subcommand{did_you_mean(close)}", context)


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
@click.option(
    "--to",
    "url",
    type=text,
    metavar="URL",
    help="Send signed deliveries to a running receiver instead.",
)
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
        return _live(scenario, as_json=as_json, trace=trace, **live)
    _check_not_live(scenario, live)
    report = SimulationReport(scenario)
    with tracing(trace) as write_attempt:
        for attempt in attempts_of(scenario):
            report.add(attempt)
            write_attempt(attempt, {})
    if html is not None:
        _write(html, page(scenario, report))
    if svg is not None:
        _write(svg, picture(scenario, report))
    if as_json:
        write_json(report.as_json())
    elif trace != STDOUT:
        _print(scenario, report)
    return OK


def _check_not_live(scenario: Scenario, live: Mapping[str, Any]) -> None:
    """Raise UsageError for options that need --to; say which part of a file a simulation leaves out."""
    flags = click.get_current_context().params
    faults = [name for name in FAULTS_OF_SENDER if flags[name] is not None]
    if given := [*faults, *(name for name, value in live.items() if value)]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --to URL")
    if scenario.faults != Faults():
        note("a simulation has no faults of the sender: add --to URL")


def _live(scenario: Scenario, **options: Any) -> int:
    from receiver.cli.simulate.live import LiveOptions, run_live  # httpx and the store take long to load

    return run_live(scenario, LiveOptions(**options))


def _print(scenario: Scenario, report: SimulationReport) -> None:
    from receiver.cli.simulate.output import print_summary

    print_summary(scenario, report)


def _write(path: Path, text: str) -> None:
    with opened(path) as file:
        file.write(text.encode())
