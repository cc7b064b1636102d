"""`receiver simulate --to URL`: a scenario with real, signed deliveries, and a check of the receiver's store."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from receiver.cli.common.exit_codes import FAILED, INTERRUPTED, OK
from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.common.output import flush, note, write_json
from receiver.cli.common.progress import progress
from receiver.cli.common.store import open_reports
from receiver.cli.send import make_sender
from receiver.cli.simulate.live_summary import Played, as_json, print_played, rounded
from receiver.cli.simulate.trace import STDOUT, WriteAttempt, tracing
from receiver.core.clock import FastClock, SystemClock
from receiver.core.durations import in_words
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError, StoreError
from receiver.service.schedule import ATTEMPTS
from receiver.service.sender import Sender, SendResult
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Ledger, Mark, mark
from receiver.service.simulator.live import EndpointReply, Live, LiveSent
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import Endpoint, Scenario
from receiver.settings import Settings, load_settings

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
        _progress(scenario) as advance,
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


def _progress(scenario: Scenario) -> AbstractContextManager[Callable[[int], None]]:
    return progress("sending", sum(1 for _ in arrivals(scenario.arrivals, scenario.seed)))


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
