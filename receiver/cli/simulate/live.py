"""`receiver simulate --to URL`: a scenario with real, signed deliveries, and a look into the receiver's store."""

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
from receiver.cli.common.output import flush, note, write_bytes
from receiver.cli.common.progress import progress
from receiver.cli.common.store import open_reports
from receiver.cli.send import make_sender
from receiver.cli.simulate.live_summary import Played, as_json, print_played, rounded
from receiver.cli.simulate.trace import STDOUT, Tell, tracing
from receiver.core.clock import FastClock, SystemClock
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError, StoreError
from receiver.service.samples import encode
from receiver.service.schedule import ATTEMPTS
from receiver.service.sender import Sender, SendResult
from receiver.service.simulator.arrivals import arrivals
from receiver.service.simulator.durations import in_words
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Ledger, Mark, mark
from receiver.service.simulator.live import Live, LiveSent, Reply
from receiver.service.simulator.report import SimulationReport
from receiver.service.simulator.scenario import Endpoint, Scenario
from receiver.settings import Settings, load_settings

MAX_CONCURRENT = 64
"""Requests on their way. More slow the HTTP client down; what would start then waits, and that is told."""
_MEANINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What the command line asks for beside the scenario."""

    url: str
    speed: float | None
    play_outages: bool
    no_check: bool
    store: str | None
    as_json: bool
    trace: Path | None


def run_live(scenario: Scenario, options: LiveOptions) -> int:
    """Send the scenario's deliveries, tell what became of them, and return the exit code."""
    settings = load_settings(store=options.store)
    if scenario.faults.forged and not settings.authenticated:
        raise ConfigurationError(
            "a receiver that takes unsigned deliveries takes forged ones too: set RECEIVER_SECRETS, "
            "or leave out the forged ones"
        )
    speed = options.speed or 1.0
    _explain(scenario, settings, options, speed)
    if not options.play_outages:
        scenario = scenario.model_copy(update={"outages": ()})
    try:
        return asyncio.run(_run(scenario, settings, options, speed))
    except asyncio.CancelledError:  # Ctrl-C for the second time
        return INTERRUPTED


def _explain(scenario: Scenario, settings: Settings, options: LiveOptions, speed: float) -> None:
    """Say what of the scenario a live run does not have, and which times do not go together."""
    if scenario.outages and not options.play_outages:
        note(
            "the outages are not played, since the receiver can really be down; "
            "with --play-outages the sender sends nothing in them"
        )
    if scenario.endpoint != Endpoint():
        note("latency, errors and capacity are not played: the receiver answers as it does")
    timeout = scenario.schedule.timeout / speed
    if settings.ack_deadline >= timeout:
        note(
            f"at {speed:g} times the speed the sender waits {rounded(timeout)} for an answer, and "
            f"RECEIVER_ACK_DEADLINE stays {in_words(settings.ack_deadline)}: "
            "a store that is too slow is a time-out here, no 503"
        )


async def _run(scenario: Scenario, settings: Settings, options: LiveOptions, speed: float) -> int:
    started = SystemClock().now()
    since = None if options.no_check else await _mark(settings)
    clock, ledger, report = FastClock(SystemClock(), speed), Ledger(started), SimulationReport(scenario)
    # New ids in each run, since the store knows those of the last one.
    rng = random.Random(f"{scenario.seed} {started}")  # noqa: S311 - they need not be secret
    timeout = scenario.schedule.timeout
    sender = make_sender(settings, options.url, MAX_CONCURRENT, timeout=timeout, clock=clock)
    forger = make_sender(_forging(settings), options.url, MAX_CONCURRENT, timeout=timeout, clock=clock)
    with (
        tracing(options.trace) as tell,
        _told(scenario) as advance,
        stopping_at_interrupt("what is on its way") as stop,
    ):
        listener = Listener(ledger, report, tell, advance)
        async with sender, forger:
            live = Live(scenario, Poster(sender, forger), clock, rng, listener.note, stop, places=MAX_CONCURRENT)
            await live.run()
        interrupted = stop.is_set()
    for meaning, number in listener.meanings.most_common(_MEANINGS):
        note(f"receiver: {number} not taken: {escape_controls(meaning)}")
    played = Played(scenario, sender.address, speed, report, live.created, live.faults, interrupted)
    findings, error = await _findings(settings, ledger, since)
    if options.as_json:
        write_bytes(encode(as_json(played, findings, checked=since is not None and error is None)) + b"\n")
    elif options.trace != STDOUT:
        print_played(played, findings, checked=since is not None and error is None)
    if error is not None:
        raise error
    return INTERRUPTED if interrupted else FAILED if findings.wrong else OK


def _forging(settings: Settings) -> Settings:
    """Return the settings of somebody who does not know the secrets."""
    wrong = (SecretStr("not-the-secret"),)
    return settings.model_copy(
        update={"secrets": wrong if settings.secrets else (), "tokens": wrong if settings.tokens else ()}
    )


async def _mark(settings: Settings) -> Mark:
    try:
        async with open_reports(settings) as reports:
            return await mark(reports)
    except StoreError as exc:
        raise StoreError(f"{exc}; say where the receiver keeps deliveries with --store, or --no-check") from exc


async def _findings(settings: Settings, ledger: Ledger, since: Mark | None) -> tuple[Findings, StoreError | None]:
    """Return what is wrong: by the store, or by the answers alone without one, or with an error if it fails now."""
    if since is None:
        return ledger.unchecked(), None
    try:
        async with open_reports(settings) as reports:
            return await ledger.check(reports, since), None
    except StoreError as exc:
        return ledger.unchecked(), exc


def _told(scenario: Scenario) -> AbstractContextManager[Callable[[int], None]]:
    return progress("sending", sum(1 for _ in arrivals(scenario.arrivals, scenario.seed)))


class Poster:
    """Puts requests on the wire, each in its way."""

    def __init__(self, sender: Sender, forger: Sender) -> None:
        self._sender = sender
        self._forger = forger

    async def __call__(self, request: SimulatedRequest) -> Reply:
        """Send a request and return what it met."""
        sender = self._forger if request.way is FaultKind.FORGED else self._sender
        signed = request.body if request.way is FaultKind.CLIPPED else None
        result = await sender.send(request.payload, signed=signed, over=request.upload)
        return Reply(_outcome(result), result.status, result.answer == "duplicate", result.meaning)


def _outcome(result: SendResult) -> ResponseKind:
    if result.ok:
        return ResponseKind.OK
    if result.status is not None:
        return ResponseKind.STATUS
    return ResponseKind.REFUSED if result.answer == "no connection" else ResponseKind.TIMEOUT


class Listener:
    """Hands on what is told of each request: to the ledger, the report, the trace and the progress."""

    def __init__(
        self, ledger: Ledger, report: SimulationReport, tell: Tell, advance: Callable[[int], None]
    ) -> None:
        self.meanings: Counter[str] = Counter()
        self._ledger = ledger
        self._report = report
        self._tell = tell
        self._advance = advance

    def note(self, sent: LiveSent) -> None:
        """Take note of a request."""
        key = self._ledger.note(sent)
        if sent.reply is not None and sent.reply.meaning and sent.request.way is FaultKind.WHOLE:
            self.meanings[sent.reply.meaning] += 1
        if sent.attempt is not None:
            self._report.add(sent.attempt)
            self._tell(sent.attempt, {"id": key})
            flush()
            if sent.attempt.state not in ATTEMPTS:
                self._advance(1)
