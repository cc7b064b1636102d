"""Texts about a scenario and its result, for the terminal and the page."""

from receiver.core.units import MICROSECOND, in_words
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import ArrivalPattern, Endpoint, Outage, OutageKind, Scenario
from receiver.service.simulator.series import Series


def described(scenario: Scenario) -> list[tuple[str, str]]:
    """Return the scenario as names and values."""
    waits = scenario.sender
    lines = [
        ("arrivals", _arrivals(scenario.arrivals)),
        ("endpoint", _endpoint(scenario.endpoint)),
        ("outages", "; ".join(_outage(outage) for outage in scenario.outages) or "none"),
        ("service", f"waits {in_words(waits.timeout)}, again after {', '.join(map(in_words, waits.pauses))}"),
    ]
    return [*lines, ("seed", str(scenario.seed))]


def answer(report: SimulationReport) -> str:
    """Return the result in one sentence."""
    if not report.deliveries:
        return "Nothing was delivered, because nothing arrived."
    late = report.failed - report.lost
    if not report.failed:
        return f"Nothing is lost: all {report.deliveries:,} deliveries get through."
    share = 100 * report.failed / report.deliveries
    arrived = f"; {late:,} of them arrived all the same, too late" if late else ""
    return f"{report.failed:,} of {report.deliveries:,} deliveries fail for good ({share:.3g} %){arrived}."


def moment(micros: int | None) -> str:
    """Return microseconds as a rounded duration for people."""
    if micros is None:
        return "-"
    fine = 1_000_000 if micros >= 60_000_000 else 1_000
    return in_words(micros // fine * fine * MICROSECOND)


def _arrivals(arrivals: ArrivalPattern) -> str:
    parts = [f"{len(arrivals.at)} at exact moments"] if arrivals.at else []
    if arrivals.rate is not None:
        way = "at random" if arrivals.poisson else "evenly"
        parts.append(f"{arrivals.rate:g}/s for {in_words(arrivals.duration)}, {way} spaced")
    parts += [
        f"{job.family} with {job.pages:,} pages at {in_words(job.at)}, {job.pace:g}/s" for job in arrivals.jobs
    ]
    return "; ".join(parts) or "none"


def _endpoint(endpoint: Endpoint) -> str:
    latency = f"answers in {in_words(endpoint.latency.p50)}"
    if endpoint.latency.p99 is not None:
        latency += f" (median), {in_words(endpoint.latency.p99)} (p99)"
    errors = f", 500 for {100 * endpoint.error_rate:g} %" if endpoint.error_rate else ""
    return latency + errors + (f", {endpoint.capacity:,} at once" if endpoint.capacity else "")


def _outage(outage: Outage) -> str:
    kind = f"status {outage.status}" if outage.kind is OutageKind.STATUS else outage.kind.value
    return f"{in_words(outage.start)}..{in_words(outage.end)} ({kind})"


def waves_in_steps(report: SimulationReport, scenario: Scenario, most: int) -> list[tuple[str, list[int], bool]]:
    """Return attempts in a limited number of steps: their start, counts by number, and whether an outage was on."""
    return [
        (in_words(start * MICROSECOND), counts, _is_out(scenario, start, end))
        for start, end, counts in in_steps(report.waves, most)
    ]


def in_steps(series: Series, most: int) -> list[tuple[int, int, list[int]]]:
    """Return a series in a limited number of steps: beginning and end in microseconds, and counts."""
    rows = series.rows()
    number = max(1, -(-len(rows) // most))
    return [
        (
            group[0][0],
            group[0][0] + number * series.width_us,
            [sum(kind) for kind in zip(*(row[1] for row in group), strict=True)],
        )
        for group in (rows[place : place + number] for place in range(0, len(rows), number))
    ]


def _is_out(scenario: Scenario, start_us: int, end_us: int) -> bool:
    start, end = start_us * MICROSECOND, end_us * MICROSECOND
    return any(outage.start < end and start < outage.end for outage in scenario.outages)
