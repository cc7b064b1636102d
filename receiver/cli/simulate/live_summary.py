"""What came of a live run, for people and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from receiver.cli.common.output import write_line
from receiver.cli.simulate.summary import busiest, print_result, times
from receiver.core.text import counted, escape_controls, first_of
from receiver.service.simulator.durations import in_words
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.ledger import Findings, Wrong
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.words import described, moment

_EXAMPLES = 3
_WORTH_TELLING_US = 1_000_000
_IN_WORDS = {
    Wrong.MISSING: "acknowledged and not in the store",
    Wrong.LOST: "sent whole, given up after the last retry, and not known to be in the store",
    Wrong.ALTERED: "in the store with another body",
    Wrong.MISCOUNTED: "in the store with a number of duplicates that cannot be",
    Wrong.TAKEN: "forged or cut short, and taken all the same",
    Wrong.NOT_IN_QUARANTINE: "refused as malformed and not in quarantine",
    Wrong.IN_QUARANTINE: "in quarantine where it should not be",
    Wrong.UNKNOWN: "in the store and never sent, though of a job of this run",
}


@dataclass(frozen=True, slots=True)
class Played:
    """A live run: what was played, against which address and how fast, and what became of it."""

    scenario: Scenario
    address: str
    speed: float
    report: SimulationReport
    created: int
    faults: Mapping[str, int]
    interrupted: bool

    @property
    def unfinished(self) -> int:
        """How many deliveries had not come to their end when it was stopped."""
        return self.created - self.report.deliveries


def as_json(played: Played, findings: Findings, *, checked: bool) -> dict[str, Any]:
    """Return all figures. What a sender cannot know is left out: how much arrived too late."""
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
    """Print what was sent, what came of it, and what the store has of it."""
    report = played.report
    repeated = f"{report.duplicates:,} retries of what had arrived, out of order {report.out_of_order:,}"
    print_result(played.scenario, report, _facts(played), [times(report), ("again", repeated), busiest(report)])
    write_line("")
    for line in _verdict(played, findings, checked=checked):
        write_line(line)


def _facts(played: Played) -> list[tuple[str, str]]:
    schedule, speed = played.scenario.schedule, played.speed
    waits = ", ".join(rounded(wait / speed) for wait in (schedule.timeout, *schedule.pauses))
    faults = ", ".join(f"{name} {number:,}" for name, number in played.faults.items() if number)
    lines = dict(described(played.scenario)) | {"endpoint": escape_controls(played.address)}
    lines["speed"] = f"{speed:g} times; really waits {waits}"
    lines["faults"] = faults or "none"
    return list(lines.items())


def rounded(wait: timedelta) -> str:
    """Return a duration to the millisecond."""
    return in_words(timedelta(milliseconds=round(wait / timedelta(milliseconds=1))))


def _verdict(played: Played, findings: Findings, *, checked: bool) -> Iterator[str]:
    report = played.report
    if played.interrupted:
        yield f"Stopped: {counted(played.unfinished, 'delivery')} of {played.created:,} had not come to an end."
    if report.longest_wait_us >= _WORTH_TELLING_US:
        yield f"Some attempts began late, by up to {moment(report.longest_wait_us)}: this is too fast for here."
    for kind, ids in findings.wrong.items():
        yield f"{len(ids):,} {_IN_WORDS[kind]}: {escape_controls(first_of(ids, _EXAMPLES))}"
    if not checked:
        yield "The store was not looked at."
        return
    has = f"{findings.stored:,} of this run, with {counted(findings.duplicates, 'duplicate')}"
    more = f"; {findings.unanswered:,} of them were never acknowledged" if findings.unanswered else ""
    yield f"The store has {has}, and {findings.quarantined:,} in quarantine{more}."
    if findings.others:
        yield f"Other senders brought {findings.others:,} meanwhile."
    if not findings.wrong:
        yield "Everything that should be there is there, and nothing else."
