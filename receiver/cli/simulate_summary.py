"""The summary of a simulation for people, with bars."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from receiver.simulator.report import FATES, Report
from receiver.simulator.scenario import Scenario
from receiver.simulator.words import answer, described, moment, waves_in_steps

_BAR = 36
_STEPS = 18


def print_summary(scenario: Scenario, report: Report) -> None:
    """Print what was simulated, what came of it, and how many attempts started when."""
    console = Console(highlight=False)
    full = "#" if console.options.ascii_only else "█"
    for name, value in described(scenario):
        console.print(f"{name:<12} [dim]{value}[/]", soft_wrap=True)
    console.print(f"\n[bold]{answer(report)}[/]\n", soft_wrap=True)
    counts = [*report.by_attempt, report.failed]
    rows = [
        (name, number, "red" if name == FATES[-1] else "green", "")
        for name, number in zip(FATES, counts, strict=True)
    ]
    console.print(_bars(rows, full))
    console.print(_figures(report))
    console.print("\nattempts that started, by time")
    waves = waves_in_steps(report, scenario, _STEPS)
    console.print(_bars([(label, sum(counts), "cyan", "outage" * out) for label, counts, out in waves], full))


def _bars(rows: Sequence[tuple[str, int, str, str]], full: str) -> Table:
    """Return rows of a name, a number, a bar of this style as long as the number, and a remark."""
    most = max((number for _, number, _, _ in rows), default=0)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, number, style, remark in rows:
        length = -(-number * _BAR // most) if most else 0  # rounded up: one is seen beside thousands
        table.add_row(name, f"{number:,}", Text(full * length, style=style), remark)
    return table


def _figures(report: Report) -> str:
    p50, p99, longest = (moment(report.times.at(share)) for share in (0.5, 0.99, 1))
    late = f"{report.late:,}, duplicates {report.duplicates:,}, out of order {report.out_of_order:,}"
    return (
        f"\ntime to delivery  p50 {p50}, p99 {p99}, longest {longest}"
        f"\narrived late      {late}"
        f"\nbusiest second    {report.peak_rate:,} of {report.attempts:,} attempts"
    )
