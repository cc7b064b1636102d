"""`receiver simulate --to URL`: a scenario with real, signed deliveries, and a check of the receiver's store."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import flush, note, progress, write_json, write_line
from receiver.cli.common.store import open_reports
from receiver.cli.send import make_sender
from receiver.cli.simulate.output import STDOUT, WriteAttempt, busiest, print_result, times, tracing
from receiver.core.clock import FastClock, SystemClock
from receiver.core.text import counted, escape_controls, first_of
from receiver.core.units import in_words
from receiver.errors import ConfigurationError, StoreError
from receiver.service.schedule import ATTEMPTS
from receiver.service.sender import Sender, SendResult
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Ledger, Mark, Wrong, mark
from receiver.service.simulator.live import EndpointReply, Live, LiveSent
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import Endpoint, Scenario
from receiver.service.simulator.words import described, moment
from receiver.settings import Settings, load_settings

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


MAX_CONCURRENT = 64
"""Open requests at one time. More would slow the HTTP client down. Further ones wait, and the summary says so."""
_MAX_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """The options of a live run beside the scenario."""

    url: str
    speed: float | None
    play_outages: bool
    no_check: bool
    store: str | None
    as_json: bool
    trace: Path | None


def run_live(scenario: Scenario, options: LiveOptions) -> int:
    """Send the scenario's deliveries, print the result, and return the exit code."""
    settings = load_settings(store=options.store)
    if scenario.faults.forged and not settings.authenticated:
        raise ConfigurationError(
            "a receiver that accepts unsigned deliveries accepts forged ones too: set RECEIVER_SECRETS, "
            "or leave out --forged"
        )
    speed = options.speed or 1.0
    _explain(scenario, settings, options, speed)
    if not options.play_outages:
        scenario = scenario.model_copy(update={"outages": ()})
    try:
        return asyncio.run(_run(scenario, settings, options, speed))
    except asyncio.CancelledError:  # the second Ctrl-C or SIGTERM
        return INTERRUPTED


def _explain(scenario: Scenario, settings: Settings, options: LiveOptions, speed: float) -> None:
    """Say which parts of the scenario a live run leaves out, and which times do not fit together."""
    if scenario.outages and not options.play_outages:
        note(
            "the sender ignores the outages, since you can stop the receiver itself; "
            "with --play-outages it sends nothing during them"
        )
    if scenario.endpoint != Endpoint():
        note("latency, errors and capacity are ignored: the real receiver answers")
    timeout = scenario.schedule.timeout / speed
    if settings.ack_deadline >= timeout:
        note(
            f"at {speed:g} times the speed the sender waits {rounded(timeout)} for an answer, and "
            f"RECEIVER_ACK_DEADLINE stays {in_words(settings.ack_deadline)}: "
            "a slow store causes a time-out here, not a 503"
        )


async def _run(scenario: Scenario, settings: Settings, options: LiveOptions, speed: float) -> int:
    started = SystemClock().now()
    since = None if options.no_check else await _mark(settings)
    clock, ledger, report = FastClock(SystemClock(), speed), Ledger(started), SimulationReport(scenario)
    # New ids in each run, since the store knows the ids of the last run.
    rng = random.Random(f"{scenario.seed} {started}")  # noqa: S311 - they need not be secret
    timeout = scenario.schedule.timeout
    sender = make_sender(settings, options.url, MAX_CONCURRENT, timeout=timeout, clock=clock)
    forger = make_sender(_forging(settings), options.url, MAX_CONCURRENT, timeout=timeout, clock=clock)
    with (
        tracing(options.trace) as write_attempt,
        progress("sending", sum(1 for _ in arrivals(scenario.arrivals, scenario.seed))) as advance,
        stopping_at_interrupt("the open requests") as stop,
    ):
        listener = Listener(ledger, report, write_attempt, advance)
        async with sender, forger:
            live = Live(scenario, Poster(sender, forger), clock, rng, listener.note, stop, places=MAX_CONCURRENT)
            await live.run()
        interrupted = stop.is_set()
    for reason, number in listener.failures.most_common(_MAX_FAILURES):
        note(f"receiver: {number} not accepted: {escape_controls(reason)}")
    played = Played(scenario, sender.address, speed, report, live.created, live.faults, interrupted)
    findings, error = await _findings(settings, ledger, since)
    checked = since is not None and error is None
    if options.as_json:
        write_json(as_json(played, findings, checked=checked))
    elif options.trace != STDOUT:
        print_played(played, findings, checked=checked)
    if error is not None:
        raise error
    return INTERRUPTED if interrupted else FAILED if findings.wrong else OK


def _forging(settings: Settings) -> Settings:
    """Return the settings of a sender that does not know the secrets."""
    wrong = (SecretStr("not-the-secret"),)
    return settings.model_copy(
        update={"secrets": wrong if settings.secrets else (), "tokens": wrong if settings.tokens else ()}
    )


async def _mark(settings: Settings) -> Mark:
    try:
        async with open_reports(settings) as reports:
            return await mark(reports)
    except StoreError as exc:
        raise StoreError(f"{exc}; name the receiver's store with --store, or add --no-check") from exc


async def _findings(settings: Settings, ledger: Ledger, since: Mark | None) -> tuple[Findings, StoreError | None]:
    """Return the faults that the store shows, or only the answers; with the error if the store fails now."""
    if since is None:
        return ledger.unchecked(), None
    try:
        async with open_reports(settings) as reports:
            return await ledger.check(reports, since), None
    except StoreError as exc:
        return ledger.unchecked(), exc


class Poster:
    """Sends requests, each with its fault."""

    def __init__(self, sender: Sender, forger: Sender) -> None:
        self._sender = sender
        self._forger = forger

    async def __call__(self, request: SimulatedRequest) -> EndpointReply:
        """Send a request and return the reply."""
        sender = self._forger if request.way is FaultKind.FORGED else self._sender
        signed = request.body if request.way is FaultKind.CLIPPED else None
        result = await sender.send(request.payload, signed=signed, over=request.upload)
        return EndpointReply(_outcome(result), result.status, result.answer == "duplicate", result.meaning)


def _outcome(result: SendResult) -> ResponseKind:
    if result.ok:
        return ResponseKind.OK
    if result.status is not None:
        return ResponseKind.STATUS
    return ResponseKind.REFUSED if result.answer == "no connection" else ResponseKind.TIMEOUT


class Listener:
    """Passes each request that was sent to the ledger, the report, the trace and the progress bar."""

    def __init__(
        self, ledger: Ledger, report: SimulationReport, write_attempt: WriteAttempt, advance: Callable[[int], None]
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._ledger = ledger
        self._report = report
        self._write_attempt = write_attempt
        self._advance = advance

    def note(self, sent: LiveSent) -> None:
        """Record a request."""
        key = self._ledger.note(sent)
        if sent.reply is not None and sent.reply.meaning and sent.request.way is FaultKind.WHOLE:
            self.failures[sent.reply.meaning] += 1
        if sent.attempt is not None:
            self._report.add(sent.attempt)
            self._write_attempt(sent.attempt, {"id": key})
            flush()
            if sent.attempt.state not in ATTEMPTS:
                self._advance(1)
