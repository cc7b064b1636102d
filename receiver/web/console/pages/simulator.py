"""The simulator: what an outage costs, redrawn with each change of the form."""

from datetime import timedelta
from typing import Any

from markupsafe import Markup
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.units import parse_duration
from receiver.service.simulator.charts import fates, svg, times, waves
from receiver.service.simulator.report import SimulationReport, report_on
from receiver.service.simulator.scenario import ArrivalPattern, Endpoint, Latency, Outage, OutageKind, Scenario
from receiver.service.simulator.words import answer, described
from receiver.web.console.filters import Query, WrongFilter
from receiver.web.console.parts import ConsolePages, get

MAX_DELIVERIES = 100_000
"""Of one simulation: it runs while the page waits."""
_DEFAULTS = {"rate": "1", "duration": "1h", "outage_from": "10m", "outage_for": "25m", "kind": "refuse"}
_DEFAULTS |= {"latency": "200ms", "capacity": "", "error_rate": "0"}


class SimulatorPage(ConsolePages):
    """The simulator: what an outage costs, redrawn with each change of the form."""

    @override
    def routes(self) -> list[Route]:
        return [get("/simulator", self._show)]

    async def _show(self, request: Request) -> Response:
        query = self._parts.query(request)
        given = {name: query.text(name) or default for name, default in _DEFAULTS.items()}
        content: dict[str, Any] = {
            "given": given,
            "kinds": list(OutageKind),
            "error": "",
            "charts": (),
            "answer": "",
            "words": (),
        }
        is_part = bool(request.headers.get("hx-request"))
        try:
            scenario = _scenario(Query(given))
        except (WrongFilter, ValueError) as exc:
            content["error"] = _reason(exc)
        else:
            content |= await self._parts.slow.run(_simulated, scenario)
        template = "simulator_result.html" if is_part else "simulator.html"
        status = 400 if content["error"] and not is_part else 200  # a part with another status is not shown
        return self._parts.pages.page(request, template, content, status=status)


def _simulated(scenario: Scenario) -> dict[str, Any]:
    report = report_on(scenario)
    return {"answer": answer(report), "words": described(scenario), "charts": _charts(scenario, report)}


def _scenario(given: Query) -> Scenario:
    rate, share = _number(given, "rate"), _number(given, "error_rate")
    duration, start = _duration(given, "duration"), _duration(given, "outage_from")
    if rate * duration.total_seconds() > MAX_DELIVERIES:
        raise WrongFilter(f"the page simulates up to {MAX_DELIVERIES:,} deliveries; `receiver simulate` takes more")
    length, capacity = _duration(given, "outage_for"), given.text("capacity")
    outages = (
        (Outage(start=start, end=start + length, kind=OutageKind(given.text("kind") or "")),) if length else ()
    )
    return Scenario(
        arrivals=ArrivalPattern(rate=rate, duration=duration),
        endpoint=Endpoint(
            latency=Latency(p50=_duration(given, "latency")),
            error_rate=share,
            capacity=int(capacity) if capacity else None,
        ),
        outages=outages,
    )


def _duration(given: Query, name: str) -> timedelta:
    try:
        return parse_duration(given.text(name))
    except ValueError as exc:
        raise WrongFilter(f"{name.replace('_', ' ')}: {exc}") from None


def _number(given: Query, name: str) -> float:
    try:
        return float(given.text(name) or "")
    except ValueError:
        raise WrongFilter(f"{name.replace('_', ' ')} is not a number") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)


def _charts(scenario: Scenario, report: SimulationReport) -> list[tuple[str, Markup]]:
    """Return the charts with their captions. Their texts are ours, and escaped where they are made."""
    charts = (fates(scenario, report), waves(scenario, report), times(report))
    return [
        (chart.caption, Markup(svg([chart], name=f"chart{at}")))  # noqa: S704
        for at, chart in enumerate(charts)
    ]
