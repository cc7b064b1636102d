"""What the tests of the endpoint and of the health checks share."""

from receiver.core.clock import VirtualClock
from receiver.core.ports.log import DeliveryLog
from receiver.signals.traces.contracts import DeliveryTraces
from receiver.web.intake import Authenticator, Intake
from tests.doubles import NOON, SECRET, Answer


def intake(
    log: DeliveryLog,
    *,
    max_body: int = 1_000,
    max_in_flight: int = 100_000,
    traces: DeliveryTraces | None = None,
) -> Intake:
    gate = Authenticator(signature_header="X-Firecrawl-Signature", secrets=[SECRET], token_header=None, tokens=())
    clock = VirtualClock(NOON)
    return Intake(log, gate, clock, max_body=max_body, max_in_flight=max_in_flight, traces=traces)


def check_error(answer: Answer, status: int, code: str) -> None:
    """An error names its code and says what to do; 503 says when to come again. Nothing secret is in it."""
    assert answer.status == status
    assert answer.content.keys() == {"error", "detail"}
    assert answer.content["error"] == code
    assert answer.content["detail"]
    assert answer.headers[b"content-type"] == b"application/json"
    assert int(answer.headers[b"content-length"]) == len(answer.body)
    assert (b"retry-after" in answer.headers) == (status == 503)
    assert SECRET.encode() not in answer.body
