"""A report as one HTML page: charts, each with a table of its figures. It loads nothing and runs no script."""

from collections.abc import Iterable, Sequence
from html import escape

from receiver.core.units import MICROSECOND, in_words
from receiver.service.simulator.charts import STYLE, Chart, fates, svg, times, waves
from receiver.service.simulator.report import FATES, SimulationReport
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.series import Series
from receiver.service.simulator.words import answer, described, in_steps, moment

_STEPS = 24
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --faint: #d0d7de; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #3d444d; --paper: #0d1117; } }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.5rem; }
.grid { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; max-width: 36rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.75rem 0.15rem 0; border-bottom: 1px solid var(--faint); text-align: right; }
th:first-child, .words td { text-align: left; overflow-wrap: break-word; }
th { font-weight: 600; }
details > div { overflow-x: auto; }
summary { cursor: pointer; padding: 0.4rem 0; }
"""

Row = Sequence[str]


def page(scenario: Scenario, report: SimulationReport) -> str:
    """Return the page as HTML."""
    title = "What an outage costs"
    pictures = (
        _figure("fates", fates(scenario, report), ("created", *FATES), _series(report.fates)),
        _figure("waves", waves(scenario, report), ("started", *FATES[:-1]), _series(report.waves)),
        _figure("times", times(report), ("share", "delivered within"), _shares(report)),
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}{STYLE}</style>\n'
        f"</head>\n<body>\n<h1>{escape(answer(report))}</h1>\n"
        f'<div class="grid">\n{"".join(pictures)}'
        f"<section><h2>Figures</h2>{_table((), _figures(report), 'words')}</section>\n"
        f"<section><h2>Scenario</h2>{_table((), described(scenario), 'words')}</section>\n"
        "</div>\n</body>\n</html>\n"
    )


def picture(scenario: Scenario, report: SimulationReport) -> str:
    """Return the charts of fates and attempts as one SVG file."""
    return svg([fates(scenario, report), waves(scenario, report)], name="simulation", style=STYLE)


def _figure(name: str, chart: Chart, heads: Row, rows: Iterable[Row]) -> str:
    return (
        f"<figure>{svg([chart], name=name)}<figcaption>{escape(chart.sentence)}</figcaption>"
        f"<details><summary>{escape(chart.title)} as a table</summary><div>{_table(heads, rows)}</div></details>"
        "</figure>\n"
    )


def _table(heads: Row, rows: Iterable[Row], kind: str = "") -> str:
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    head = f"<thead><tr>{cells}</tr></thead>" if cells else ""
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f'<table class="{kind}">{head}<tbody>{body}</tbody></table>'


def _series(series: Series) -> Iterable[Row]:
    for start, _, counts in in_steps(series, _STEPS):
        yield in_words(start * MICROSECOND), *(f"{count:,}" for count in counts)


def _shares(report: SimulationReport) -> Iterable[Row]:
    for share in (0.5, 0.9, 0.95, 0.99, 0.999, 1):
        yield f"{100 * share:g} % of those delivered", moment(report.times.at(share))


def _figures(report: SimulationReport) -> Iterable[Row]:
    yield "deliveries", f"{report.deliveries:,}"
    for name, number in zip(FATES, (*report.by_attempt, report.failed), strict=True):
        yield name if name == FATES[-1] else f"delivered by {name}", f"{number:,}"
    yield "failed, and never arrived", f"{report.lost:,}"
    yield "attempts", f"{report.attempts:,}"
    yield "attempts in the busiest second", f"{report.peak_rate:,}"
    yield "arrived after the service's time-out", f"{report.late:,}"
    yield "duplicates", f"{report.duplicates:,}"
    yield "out of order", f"{report.out_of_order:,}"
    yield "longest wait in the endpoint's queue", moment(report.longest_wait_us)
