"""The check of a store after a live run: it finds each kind of fault, and nothing else."""

import pytest

from receiver.core.deliveries import Delivery, Quarantined
from receiver.core.envelope import read_envelope
from receiver.service.schedule import State
from receiver.service.simulator.endpoint import ResponseKind
from receiver.service.simulator.faults import FaultKind, SimulatedRequest
from receiver.service.simulator.ledger import Findings, Ledger, Mark, Wrong, mark
from receiver.service.simulator.live import EndpointReply, LiveSent
from receiver.service.simulator.run import SimulatedAttempt
from tests.doubles import NOON, OpenStore, appended, body_of, delivery

BODY = body_of(id="job-1", webhookId="one")
OTHER = body_of(id="job-1", webhookId="two")
OK, LATER = EndpointReply(ResponseKind.OK, 200), EndpointReply(ResponseKind.STATUS, 503)
REFUSED, NO_ANSWER = EndpointReply(ResponseKind.REFUSED), EndpointReply(ResponseKind.TIMEOUT)
MALFORMED, UNAUTHENTICATED = EndpointReply(ResponseKind.STATUS, 400), EndpointReply(ResponseKind.STATUS, 401)


def sent(
    reply: EndpointReply | None, body: bytes = BODY, way: FaultKind = FaultKind.WHOLE, state: State = State.RETRY_1
) -> LiveSent:
    outcome = ResponseKind.REFUSED if reply is None else reply.outcome
    attempt = SimulatedAttempt(1, 1, 0, 0, 0, 0, 0, outcome, state, outcome is ResponseKind.OK, False)
    return LiveSent(SimulatedRequest(body, way), reply, None if way is FaultKind.FORGED else attempt)


def as_stored(body: bytes) -> Delivery:
    return read_envelope((), body, received_at=NOON)


def refused(request: SimulatedRequest, reason: str = "malformed") -> Quarantined:
    return Quarantined(NOON, reason, "", None, (), request.payload)


class Kept:
    """A store with earlier deliveries, and the ledger of the run."""

    def __init__(self) -> None:
        self.store = OpenStore()
        self.ledger = Ledger(NOON)

    async def check(self, *all_sent: LiveSent) -> Findings:
        for one in all_sent:
            self.ledger.note(one)
        return await self.ledger.check(self.store, Mark(0, 0))


@pytest.fixture
def kept() -> Kept:
    return Kept()


async def test_acknowledged_and_stored_deliveries_are_right(kept: Kept) -> None:
    """Their duplicates are counted. A delivery without an answer may be in the store or not."""
    for _ in range(3):
        await appended(kept.store, as_stored(BODY))
    await appended(kept.store, as_stored(OTHER))

    findings = await kept.check(sent(NO_ANSWER), sent(OK), sent(OK), sent(NO_ANSWER, OTHER))

    assert (findings.stored, findings.duplicates, findings.unanswered) == (2, 2, 1)
    assert not findings.wrong


async def test_an_acknowledged_delivery_that_is_not_stored_is_missing(kept: Kept) -> None:
    """This must never happen."""
    assert (await kept.check(sent(OK))).wrong == {Wrong.MISSING: ["one"]}


async def test_a_delivery_stored_with_another_body_is_altered(kept: Kept) -> None:
    """The id is the same."""
    await appended(kept.store, as_stored(BODY)._replace(body=b"{}"))

    assert (await kept.check(sent(OK))).wrong == {Wrong.ALTERED: ["one"]}


@pytest.mark.parametrize(
    ("arrivals", "replies"),
    [(1, [OK, OK]), (2, [OK]), (3, [OK, NO_ANSWER]), (2, [REFUSED, OK])],
)
async def test_an_impossible_number_of_duplicates_is_found(
    kept: Kept, arrivals: int, replies: list[EndpointReply]
) -> None:
    """There are fewer than were acknowledged, or more than can have arrived."""
    for _ in range(arrivals):
        await appended(kept.store, as_stored(BODY))

    assert (await kept.check(*map(sent, replies))).wrong == {Wrong.MISCOUNTED: ["one"]}


@pytest.mark.parametrize(
    ("replies", "lost"),
    [
        ([NO_ANSWER, LATER, REFUSED, REFUSED], True),
        ([None, None, None, REFUSED], True),
        ([None, None, None, None], False),
    ],
)
async def test_a_delivery_that_was_given_up_is_lost_if_it_was_ever_sent(
    kept: Kept, replies: list[EndpointReply | None], lost: bool
) -> None:
    """If the sender played outages in all four attempts, the receiver is not at fault."""
    last = len(replies) - 1
    attempts = [
        sent(reply, state=State.FAILED if number == last else State.RETRY_1) for number, reply in enumerate(replies)
    ]

    assert (await kept.check(*attempts)).wrong == ({Wrong.LOST: ["one"]} if lost else {})
    assert kept.ledger.unchecked().wrong == ({Wrong.LOST: ["one"]} if lost else {})


async def test_faulty_attempts_do_not_count_as_sent(kept: Kept) -> None:
    """They were cut short or too slow, and the others were in played outages."""
    spoilt = [sent(MALFORMED, way=FaultKind.CUT), sent(NO_ANSWER, OTHER, FaultKind.SLOW)]
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CUT)))

    assert not (
        await kept.check(*spoilt, sent(None, state=State.FAILED), sent(None, OTHER, state=State.FAILED))
    ).wrong


async def test_a_delivery_that_was_given_up_but_is_stored_is_not_lost(kept: Kept) -> None:
    """It counts as never acknowledged."""
    await appended(kept.store, as_stored(BODY))

    findings = await kept.check(sent(NO_ANSWER), sent(REFUSED, state=State.FAILED))

    assert not findings.wrong
    assert findings.unanswered == 1


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CUT, FaultKind.CLIPPED])
async def test_an_acknowledged_forgery_is_wrong(kept: Kept, way: FaultKind) -> None:
    """The answer alone shows it."""
    assert (await kept.check(sent(OK, way=way))).wrong == {Wrong.TAKEN: ["one"]}
    assert kept.ledger.unchecked().wrong == {Wrong.TAKEN: ["one"]}


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CUT, FaultKind.CLIPPED])
async def test_a_stored_forgery_is_wrong(kept: Kept, way: FaultKind) -> None:
    """This holds for every answer."""
    stored = as_stored(BODY)._replace(body=SimulatedRequest(BODY, way).payload)
    await appended(kept.store, stored)

    assert (await kept.check(sent(UNAUTHENTICATED, way=way))).wrong == {Wrong.TAKEN: ["one"]}


async def test_malformed_requests_are_in_quarantine_and_forgeries_are_not(kept: Kept) -> None:
    """Then nothing is wrong."""
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CUT)))

    findings = await kept.check(
        sent(MALFORMED, way=FaultKind.CUT),
        sent(UNAUTHENTICATED, OTHER, FaultKind.CLIPPED),
        sent(UNAUTHENTICATED, way=FaultKind.FORGED),
    )

    assert not findings.wrong
    assert findings.quarantined == 1


async def test_a_malformed_request_missing_from_quarantine_is_found(kept: Kept) -> None:
    """Nothing authentic may be thrown away."""
    assert (await kept.check(sent(MALFORMED, way=FaultKind.CUT))).wrong == {Wrong.NOT_IN_QUARANTINE: ["one"]}


@pytest.mark.parametrize("way", [FaultKind.FORGED, FaultKind.CLIPPED])
async def test_a_forgery_in_quarantine_is_found(kept: Kept, way: FaultKind) -> None:
    """Otherwise anybody could fill the disk."""
    await kept.store.quarantine(refused(SimulatedRequest(BODY, way)))

    assert (await kept.check(sent(UNAUTHENTICATED, way=way))).wrong == {Wrong.IN_QUARANTINE: ["one"]}


async def test_a_delivery_stored_as_a_conflict_is_found(kept: Kept) -> None:
    """Its bytes were always the same."""
    await appended(kept.store, as_stored(BODY))
    await appended(kept.store, as_stored(BODY)._replace(body=b"{}"))

    findings = await kept.check(sent(OK), sent(OK))

    assert findings.wrong == {Wrong.IN_QUARANTINE: ["one"]}


async def test_invented_deliveries_differ_from_those_of_other_senders(kept: Kept) -> None:
    """The job of the run identifies them."""
    for body in (BODY, OTHER, body_of(id="job-2", webhookId="three")):
        await appended(kept.store, as_stored(body))

    findings = await kept.check(sent(OK))

    assert findings.wrong == {Wrong.UNKNOWN: ["two"]}
    assert findings.others == 1


async def test_the_check_ignores_everything_before_the_run(kept: Kept) -> None:
    """This holds for deliveries and for quarantine."""
    await appended(kept.store, delivery("before", job_id="job-1"))
    await kept.store.quarantine(refused(SimulatedRequest(BODY, FaultKind.CLIPPED)))
    since = await mark(kept.store)
    await appended(kept.store, as_stored(BODY))
    kept.ledger.note(sent(UNAUTHENTICATED, way=FaultKind.CLIPPED))
    kept.ledger.note(sent(OK))

    findings = await kept.ledger.check(kept.store, since)

    assert not findings.wrong
    assert (findings.stored, findings.others, findings.quarantined) == (1, 0, 0)


async def test_an_empty_store_has_a_mark() -> None:
    """Everything comes after it."""
    assert await mark(OpenStore()) == Mark(0, 0)
