"""What a store has to hold after a live run: each thing that can be wrong with it is found, and nothing else is."""

from dataclasses import replace

import pytest

from receiver.core.deliveries import Delivery
from receiver.core.envelope import read_envelope
from receiver.core.quarantine import Quarantined
from receiver.service.schedule import State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Ledger, Mark, Wrong, mark
from receiver.service.simulator.live import LiveSent, Reply
from receiver.service.simulator.run import SimulatedAttempt
from receiver.stores.memory import MemoryStore
from tests.doubles import NOON, body_of, delivery

BODY = body_of(id="job-1", webhookId="one")
OTHER = body_of(id="job-1", webhookId="two")
OK, LATER = Reply(ResponseKind.OK, 200), Reply(ResponseKind.STATUS, 503)
REFUSED, NO_ANSWER = Reply(ResponseKind.REFUSED), Reply(ResponseKind.TIMEOUT)
MALFORMED, UNAUTHENTICATED = Reply(ResponseKind.STATUS, 400), Reply(ResponseKind.STATUS, 401)


def sent(
    reply: Reply | None, body: bytes = BODY, way: FaultKind = FaultKind.WHOLE, state: State = State.RETRY_1
) -> LiveSent:
    outcome = ResponseKind.REFUSED if reply is None else reply.outcome
    attempt = SimulatedAttempt(1, 1, 0, 0, 0, 0, 0, outcome, state, outcome is ResponseKind.OK, False)
    return LiveSent(SimulatedRequest(body, way), reply, None if way is FaultKind.FORGED else attempt)


def as_stored(body: bytes) -> Delivery:
    return read_envelope((), body, received_at=NOON)


def refused(request: SimulatedRequest, reason: str = "malformed") -> Quarantined:
    return Quarantined(NOON, reason, "", None, (), request.payload)


class Kept:
    """A store with what came before the run, and the ledger of the run."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ledger = Ledger(NOON)

    async def check(self, *all_sent: LiveSent) -> Findings:
        for one in all_sent:
            self.ledger.note(one)
        return await self.ledger.check(self.store, Mark(0, 0))


@pytest.fixture
def kept() -> Kept:
    return Kept()


async def test_what_was_acknowledged_and_is_stored_is_as_it_should_be(kept: Kept) -> None:
    """With the duplicates that were acknowledged; what got no answer may have arrived or not."""
    for _ in range(3):
        await kept.store.append(as_stored(BODY))
    await kept.store.append(as_stored(OTHER))

    findings = await kept.check(sent(NO_ANSWER), sent(OK), sent(OK), sent(NO_ANSWER, OTHER))

    assert (findings.stored, findings.duplicates, findings.unanswered) == (2, 2, 1)
    assert not findings.wrong


async def test_what_was_acknowledged_and_is_not_stored_is_missing(kept: Kept) -> None:
    """The one thing that must never happen."""
    assert (await kept.check(sent(OK))).wrong == {Wrong.MISSING: ["one"]}


async def test_another_body_is_found(kept: Kept) -> None:
    """Under the same key."""
    await kept.store.append(replace(as_stored(BODY), body=b"{}"))

    assert (await kept.check(sent(OK))).wrong == {Wrong.ALTERED: ["one"]}


@pytest.mark.parametrize(
    ("arrivals", "replies"),
    [(1, [OK, OK]), (2, [OK]), (3, [OK, NO_ANSWER]), (2, [REFUSED, OK])],
)
async def test_duplicates_that_cannot_be_are_found(kept: Kept, arrivals: int, replies: list[Reply]) -> None:
    """Fewer than were acknowledged, or more than can have arrived."""
    for _ in range(arrivals):
        await kept.store.append(as_stored(BODY))

    assert (await kept.check(*map(sent, replies))).wrong == {Wrong.MISCOUNTED: ["one"]}


@pytest.mark.parametrize(
    ("replies", "lost"),
    [
        ([NO_ANSWER, LATER, REFUSED, REFUSED], True),
        ([None, None, None, REFUSED], True),
        ([None, None, None, None], False),
    ],
)
async def test_what_was_given_up_is_lost_if_the_receiver_had_a_chance(
    kept: Kept, replies: list[Reply | None], lost: bool
) -> None:
    """Four attempts in outages that the sender played are no fault of the receiver."""
    last = len(replies) - 1
    attempts = [
        sent(reply, state=State.FAILED if number == last else State.RETRY_1) for number, reply in enumerate(replies)
    ]

    assert (await kept.check(*attempts)).wrong == ({Wrong.LOST: ["one"]} if lost else {})
    assert kept.ledger.unchecked().wrong == ({Wrong.LOST: ["one"]} if lost else {})


async def test_attempts_that_the_sender_itself_spoilt_are_no_chance(kept: Kept) -> None:
    """Cut short or too slow, and the rest in outages that it played."""
    spoilt = [sent(MALFORMED, way=FaultKind.CUT), sent(NO_ANSWER, OTHER, FaultKind.SLOW)]
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CUT)))

    assert not (
        await kept.check(*spoilt, sent(None, state=State.FAILED), sent(None, OTHER, state=State.FAILED))
    ).wrong


async def test_what_was_given_up_and_arrived_all_the_same_is_not_lost(kept: Kept) -> None:
    """It is told as never acknowledged."""
    await kept.store.append(as_stored(BODY))

    findings = await kept.check(sent(NO_ANSWER), sent(REFUSED, state=State.FAILED))

    assert not findings.wrong
    assert findings.unanswered == 1


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CUT, FaultKind.CLIPPED])
async def test_what_no_receiver_may_take_is_wrong_if_it_is_acknowledged(kept: Kept, way: FaultKind) -> None:
    """The answer is enough to know."""
    assert (await kept.check(sent(OK, way=way))).wrong == {Wrong.TAKEN: ["one"]}
    assert kept.ledger.unchecked().wrong == {Wrong.TAKEN: ["one"]}


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CUT, FaultKind.CLIPPED])
async def test_what_no_receiver_may_take_is_wrong_in_the_store(kept: Kept, way: FaultKind) -> None:
    """Whatever was answered."""
    stored = replace(as_stored(BODY), body=SimulatedRequest(BODY, way).payload)
    await kept.store.append(stored)

    assert (await kept.check(sent(UNAUTHENTICATED, way=way))).wrong == {Wrong.TAKEN: ["one"]}


async def test_refused_as_malformed_means_kept_and_as_not_authentic_means_not(kept: Kept) -> None:
    """Both the right way round."""
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CUT)))

    findings = await kept.check(
        sent(MALFORMED, way=FaultKind.CUT),
        sent(UNAUTHENTICATED, OTHER, FaultKind.CLIPPED),
        sent(UNAUTHENTICATED, way=FaultKind.FORGED),
    )

    assert not findings.wrong
    assert findings.quarantined == 1


async def test_refused_as_malformed_and_not_kept_is_found(kept: Kept) -> None:
    """Nothing authentic is thrown away."""
    assert (await kept.check(sent(MALFORMED, way=FaultKind.CUT))).wrong == {Wrong.NOT_IN_QUARANTINE: ["one"]}


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CLIPPED])
async def test_refused_as_not_authentic_and_kept_is_found(kept: Kept, way: FaultKind) -> None:
    """Anybody could fill the disk."""
    await kept.store.quarantine(refused(SimulatedRequest(BODY, way)))

    assert (await kept.check(sent(UNAUTHENTICATED, way=way))).wrong == {Wrong.IN_QUARANTINE: ["one"]}


async def test_a_delivery_taken_for_a_conflict_is_found(kept: Kept) -> None:
    """Its bytes were always the same."""
    await kept.store.append(as_stored(BODY))
    await kept.store.append(replace(as_stored(BODY), body=b"{}"))

    findings = await kept.check(sent(OK), sent(OK))

    assert findings.wrong == {Wrong.IN_QUARANTINE: ["one"]}


async def test_what_was_never_sent_is_told_apart_from_what_others_sent(kept: Kept) -> None:
    """By its job."""
    for body in (BODY, OTHER, body_of(id="job-2", webhookId="three")):
        await kept.store.append(as_stored(body))

    findings = await kept.check(sent(OK))

    assert findings.wrong == {Wrong.UNKNOWN: ["two"]}
    assert findings.others == 1


async def test_what_came_before_the_run_is_no_part_of_it(kept: Kept) -> None:
    """Neither deliveries nor what is in quarantine."""
    await kept.store.append(delivery("before", job_id="job-1"))
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CLIPPED)))
    since = await mark(kept.store)
    await kept.store.append(as_stored(BODY))
    kept.ledger.note(sent(UNAUTHENTICATED, way=FaultKind.CLIPPED))
    kept.ledger.note(sent(OK))

    findings = await kept.ledger.check(kept.store, since)

    assert not findings.wrong
    assert (findings.stored, findings.others, findings.quarantined) == (1, 0, 0)


async def test_an_empty_store_has_a_mark() -> None:
    """Everything comes after it."""
    assert await mark(MemoryStore()) == Mark(0, 0)
