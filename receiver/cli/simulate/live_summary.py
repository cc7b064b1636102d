"""The result of a live run, for people and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from receiver.cli.common.output import write_line
from receiver.cli.simulate.summary import busiest, print_result, times
from receiver.core.durations import in_words
from receiver.core.text import counted, escape_controls, first_of
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.ledger import Findings, Wrong
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.words import described, moment

_EXAMPLES = 3
_MIN_DELAY_US = 1_000_000
_FINDINGS = {
    Wrong.MISSING: "acknowledged but not in the store",
    Wrong.LOST: "sent complete, given up after the last retry, and not found in the store",
    Wrong.ALTERED: "in the store with another body",
    Wrong.MISCOUNTED: "in the store with an impossible number of duplicates",
    Wrong.TAKEN: "forged or cut, and accepted",
    Wrong.NOT_IN_QUARANTINE: "refused as malformed but not in quarantine",
    Wrong.IN_QUARANTINE: "in quarantine by mistake",
    Wrong.UNKNOWN: "in the store but never sent, with the job id of this run",
}


@dataclass(frozen=True, slots=True)
class Played:
    """A live run: the scenario, the address, the speed, and the result."""

    scenario: Scenario
    address: str
    speed: float
    report: SimulationReport
    created: int
    faults: Mapping[str, int]
    interrupted: bool

    @property
    def unfinished(self) -> int:
        """How many deliveries were unfinished when the run was stopped."""
        return self.created - self.report.deliveries


def as_json(played: Played, findings: Findings, *, checked: bool) -> dict[str, Any]:
    """Return all figures except those that a sender cannot know: how many arrived too late."""
    report = played.report
    figures = {name: value for name, value in report.as_json().items() if name not in ("late", "lost")}
    figures["outcomes"] = {
        outcome.value: number for outcome, number in report.outcomes.items() if outcome is not ResponseKind.LATE
    }
    kept = {
        "stored": findings.stored,
        "duplicates": findings.duplicates,
        "unanswered": findings.unanswered,
        "quarantined": findings.quarantined,
        "others": findings.others,
    }
    return {
        "to": played.address,
        "speed": played.speed,
        "interrupted": played.interrupted,
        "created": played.created,
        "unfinished": played.unfinished,
        **figures,
        "faults": dict(played.faults),
        "store": kept if checked else None,
        "wrong": {
            kind.value: {"count": len(ids), "examples": ids[:_EXAMPLES]} for kind, ids in findings.wrong.items()
        },
    }


def print_played(played: Played, findings: Findings, *, checked: bool) -> None:
    """Print what was sent, its fates, and the check of the store."""
    report = played.report
    repeated = f"{report.duplicates:,} retries of received deliveries, out of order {report.out_of_order:,}"
    print_result(played.scenario, report, _facts(played), [times(report), ("again", repeated), busiest(report)])
    write_line("")
    for line in _conclusion(played, findings, checked=checked):
        write_line(line)


def _facts(played: Played) -> list[tuple[str, str]]:
    schedule, speed = played.scenario.schedule, played.speed
    waits = ", ".join(rounded(wait / speed) for wait in (schedule.timeout, *schedule.pauses))
    faults = ", ".join(f"{name} {number:,}" for name, number in played.faults.items() if number)
    lines = dict(described(played.scenario)) | {"endpoint": escape_controls(played.address)}
    lines["speed"] = f"{speed:g} times; real delays {waits}"
    lines["faults"] = faults or "none"
    return list(lines.items())


def rounded(wait: timedelta) -> str:
    """Return a duration to the millisecond."""
    return in_words(timedelta(milliseconds=round(wait / timedelta(milliseconds=1))))


def _conclusion(played: Played, findings: Findings, *, checked: bool) -> Iterator[str]:
    report = played.report
    if played.interrupted:
        yield f"Stopped: {counted(played.unfinished, 'delivery')} of {played.created:,} were unfinished."
    if report.longest_wait_us >= _MIN_DELAY_US:
        yield f"Some attempts started late, by up to {moment(report.longest_wait_us)}: use a lower --speed."
    for kind, ids in findings.wrong.items():
        yield f"{len(ids):,} {_FINDINGS[kind]}: {escape_controls(first_of(ids, _EXAMPLES))}"
    if not checked:
        yield "The store was not checked."
        return
    has = f"{findings.stored:,} of this run, with {counted(findings.duplicates, 'duplicate')}"
    more = f"; {findings.unanswered:,} of them were never acknowledged" if findings.unanswered else ""
    yield f"The store has {has}, and {findings.quarantined:,} in quarantine{more}."
    if findings.others:
        yield f"Other senders sent {findings.others:,} meanwhile."
    if not findings.wrong:
        yield "Nothing is missing, and nothing is there by mistake."
