"""`receiver simulate`: what the service's retries make of an outage, in virtual time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.output import note, write_bytes
from receiver.cli.simulate.flags import ARRIVALS, ENDPOINT, FAULTS, OUTAGES, SENDER, scenario_options
from receiver.cli.simulate.subcommands import QUESTIONS
from receiver.cli.simulate.trace import STDOUT, opened, tracing
from receiver.service.samples import encode
from receiver.service.simulator.page import page, picture
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.run import simulate as attempts_of
from receiver.service.simulator.scenario import Faults, Scenario


class _Simulate(click.Command):
    """Hands over to one of the questions when its name comes first: a group could not take a scenario there."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in QUESTIONS:
            question = QUESTIONS[args[0]]
            return question.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Questions"):
            formatter.write_dl([(name, question.get_short_help_str(80)) for name, question in QUESTIONS.items()])


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
    help="Write every attempt as a JSON object, one per line; to standard output without FILE.",
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write one page with pictures."
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the first picture alone."
)
@click.option(
    "--to",
    "url",
    type=text,
    metavar="URL",
    help="Send the deliveries to a running receiver, signed with the first secret of the settings.",
)
@click.option(
    "--speed", type=click.FloatRange(0.1, 1000), metavar="N", help="With --to: let time pass so much faster."
)
@click.option("--play-outages", is_flag=True, help="With --to: fail in the outages without sending anything.")
@click.option("--no-check", is_flag=True, help="With --to: do not look into the receiver's store afterwards.")
@store_option
def simulate(
    scenario: Scenario, as_json: bool, trace: Path | None, html: Path | None, svg: Path | None, **live: Any
) -> int:
    """Run deliveries against an endpoint that is out for a while, and tell what the service's retries make of it.

    Everything is a flag, or stands in SCENARIO.toml; a flag takes the place of what the file says. Without arrivals
    it is one delivery a second, for an hour. Nothing is sent, and no time passes, unless there is a URL to send to:
    then time passes, and exit code 1 says that something is missing at the end.
    """
    if as_json and trace == STDOUT:
        raise click.UsageError("--json and --trace both write to standard output: give --trace a FILE")
    if live["url"] is not None:
        if html or svg:
            raise click.UsageError("--html and --svg show a simulation: leave them out with --to")
        return _live(scenario, as_json=as_json, trace=trace, **live)
    _check_not_live(scenario, live)
    report = SimulationReport(scenario)
    with tracing(trace) as tell:
        for attempt in attempts_of(scenario):
            report.add(attempt)
            tell(attempt, {})
    if html is not None:
        _write(html, page(scenario, report))
    if svg is not None:
        _write(svg, picture(scenario, report))
    if as_json:
        write_bytes(encode(report.as_json()) + b"\n")
    elif trace != STDOUT:
        _summarise(scenario, report)
    return OK


def _check_not_live(scenario: Scenario, live: Mapping[str, Any]) -> None:
    """Refuse what means nothing in a simulation, and say what of the scenario it does not have."""
    if given := [name for name, value in live.items() if value]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --to URL")
    if scenario.faults != Faults():
        note("the sender's faults are played with --to only")


def _live(scenario: Scenario, **options: Any) -> int:
    from receiver.cli.simulate.live import LiveOptions, run_live  # httpx and the store take long to load

    return run_live(scenario, LiveOptions(**options))


def _summarise(scenario: Scenario, report: SimulationReport) -> None:
    from receiver.cli.simulate.summary import print_summary

    print_summary(scenario, report)


def _write(path: Path, text: str) -> None:
    with opened(path) as file:
        file.write(text.encode())
