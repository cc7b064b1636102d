"""What a simulation writes: the result for people with bars, and a trace of its attempts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from receiver.cli.common.output import write_json
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError
from receiver.service.samples import encode
from receiver.service.simulator.report import FATES, SimulationReport, attempt_as_json
from receiver.service.simulator.run import SimulatedAttempt
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.words import answer, moment, waves_in_steps
from receiver.stores.sqlite.system_files import require_no_database

if TYPE_CHECKING:  # only people who read a summary wait for it
    from rich.table import Table

WriteAttempt = Callable[[SimulatedAttempt, Mapping[str, Any]], None]
"""Writes an attempt with more fields."""

STDOUT = Path("-")
_BAR = 36
_STEPS = 18


def print_result(
    scenario: Scenario,
    report: SimulationReport,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[tuple[str, str]],
) -> None:
    """Print facts about the deliveries, their fates, figures, and the attempts over time."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    full = "#" if console.options.ascii_only else "█"
    for name, value in facts:
        console.print(f"{name:<12} [dim]{escape(value)}[/]", soft_wrap=True)
    console.print(f"\n[bold]{answer(report)}[/]\n", soft_wrap=True)
    counts = [*report.by_attempt, report.failed]
    rows = [
        (name, number, "red" if name == FATES[-1] else "green", "")
        for name, number in zip(FATES, counts, strict=True)
    ]
    console.print(_bars(rows, full))
    console.print()
    for name, value in figures:
        console.print(f"{name:<17} {value}", soft_wrap=True)
    console.print("\nattempts that started, by time")
    waves = waves_in_steps(report, scenario, _STEPS)
    console.print(_bars([(label, sum(counts), "cyan", "outage" * out) for label, counts, out in waves], full))


def _bars(rows: Sequence[tuple[str, int, str, str]], full: str) -> "Table":
    """Return rows of a name, a number, a bar for the number in this style, and a remark."""
    from rich.table import Table
    from rich.text import Text

    most = max((number for _, number, _, _ in rows), default=0)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, number, style, remark in rows:
        length = -(-number * _BAR // most) if most else 0  # rounded up, so that 1 is visible beside thousands
        table.add_row(name, f"{number:,}", Text(full * length, style=style), remark)
    return table


def figures(report: SimulationReport) -> list[tuple[str, str]]:
    """Return the figures below the fates."""
    arrived = (
        f"{report.late:,} after the time-out, {report.duplicates:,} again, {report.out_of_order:,} out of order"
    )
    return [times(report), ("arrived", arrived), busiest(report)]


def times(report: SimulationReport) -> tuple[str, str]:
    """Return the times to delivery."""
    p50, p99, longest = (moment(report.times.at(share)) for share in (0.5, 0.99, 1))
    return ("time to delivery", f"p50 {p50}, p99 {p99}, longest {longest}")


def busiest(report: SimulationReport) -> tuple[str, str]:
    """Return the second with the most attempts."""
    return ("busiest second", f"{report.peak_rate:,} of {report.attempts:,} attempts")


@contextmanager
def tracing(path: Path | None) -> Iterator[WriteAttempt]:
    """Give the block a function that writes an attempt to the file, to standard output, or nowhere."""
    if path is None:
        yield lambda attempt, more: None
    elif path == STDOUT:
        yield lambda attempt, more: write_json({**attempt_as_json(attempt), **more})
    else:
        with opened(path) as file:

            def write(attempt: SimulatedAttempt, more: Mapping[str, Any]) -> None:
                file.write(encode({**attempt_as_json(attempt), **more}) + b"\n")

            yield write


def opened(path: Path) -> BinaryIO:
    """Open a file for writing. Raises ConfigurationError if that fails, or if it is a scenario or a database."""
    if path.suffix == ".toml":  # `--trace scenario.toml` is meant to read it
        raise ConfigurationError(
            f"{escape_controls(str(path))} is a scenario and would be overwritten: put it first"
        )
    require_no_database(path)
    try:
        return path.open("wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {escape_controls(str(path))}: {exc.strerror}") from exc
