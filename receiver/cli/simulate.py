"""`receiver simulate`: what the service's retries make of an outage, in virtual time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from receiver.cli.main import OK
from receiver.cli.output import harmless, write_bytes
from receiver.cli.simulate_flags import ARRIVALS, ENDPOINT, OUTAGES, SENDER, scenario_options
from receiver.cli.simulate_questions import QUESTIONS
from receiver.errors import ConfigurationError
from receiver.samples import encode
from receiver.simulator.page import page, picture
from receiver.simulator.report import Report, attempt_as_json
from receiver.simulator.run import Attempt
from receiver.simulator.run import simulate as attempts_of
from receiver.simulator.scenario import Scenario

_STDOUT = Path("-")


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
@scenario_options(*OUTAGES, *ARRIVALS, *ENDPOINT, *SENDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with all figures.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    is_flag=False,
    flag_value=str(_STDOUT),
    metavar="[FILE]",
    help="Write every attempt as a JSON object, one per line; to standard output without FILE.",
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write one page with pictures."
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the first picture alone."
)
def simulate(scenario: Scenario, as_json: bool, trace: Path | None, html: Path | None, svg: Path | None) -> int:
    """Run deliveries against an endpoint that is out for a while, and tell what the service's retries make of it.

    Everything is a flag, or stands in SCENARIO.toml; a flag takes the place of what the file says. Without arrivals
    it is one delivery a second, for an hour. Nothing is sent, and no time passes.
    """
    if as_json and trace == _STDOUT:
        raise click.UsageError("--json and --trace both write to standard output: give --trace a FILE")
    report = Report(scenario)
    with _tracing(trace) as tell:
        for attempt in attempts_of(scenario):
            report.add(attempt)
            tell(attempt)
    if html is not None:
        _write(html, page(scenario, report))
    if svg is not None:
        _write(svg, picture(scenario, report))
    if as_json:
        write_bytes(encode(report.as_json()) + b"\n")
    elif trace != _STDOUT:
        _summarise(scenario, report)
    return OK


def _summarise(scenario: Scenario, report: Report) -> None:
    from receiver.cli.simulate_summary import print_summary

    print_summary(scenario, report)


@contextmanager
def _tracing(path: Path | None) -> Iterator[Callable[[Attempt], None]]:
    """Give the block a function that writes an attempt where it is wanted."""
    if path is None:
        yield lambda _: None
    elif path == _STDOUT:
        yield lambda attempt: write_bytes(_line(attempt))
    else:
        with _opened(path) as file:
            yield lambda attempt: (file.write(_line(attempt)), None)[1]


def _line(attempt: Attempt) -> bytes:
    return encode(attempt_as_json(attempt)) + b"\n"


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".toml":  # `--trace scenario.toml` was meant to read it
        raise ConfigurationError(f"{harmless(str(path))} is a scenario, and would be written over: put it first")
    try:
        return path.open("wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {harmless(str(path))}: {exc.strerror}") from exc


def _write(path: Path, text: str) -> None:
    with _opened(path) as file:
        file.write(text.encode())
