"""One request of the webhook, from the end of its headers to its answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from receiver.core.deliveries import Receipt
from receiver.core.log_lines import event_log
from receiver.core.text import shortened
from receiver.errors import Overloaded, ReadTimeout, RejectedRequest, StoreError
from receiver.web.deadlines import Deadlines
from receiver.web.intake import Admission, Intake
from receiver.web.replies import Reply, acknowledged, refused, unavailable

log = event_log("receiver.web.intake")

_SMALL_CHUNK = 1024
MAX_LOGGED = 200
"""Characters of a refused request's path, and of its user agent, in the log. Both come from outside."""

Client = tuple[str, int] | None
"""Address and port of the other end of a connection; None if the server does not know them."""

Stopwatch = Callable[[], Callable[[int], None]]
"""A call starts it when a request's headers have arrived. It returns a function that takes the answer's status."""


class Receptions:
    """Receives the requests of one endpoint.

    Each is answered within `ack_seconds` after its headers, and with 2xx only when the delivery is durable. A fault
    of ours is answered 503 and not 500, so that the sender tries again.
    """

    def __init__(
        self, intake: Intake, *, read_seconds: float, ack_seconds: float, stopwatch: Stopwatch | None = None
    ) -> None:
        self.intake = intake
        self.stopwatch = stopwatch
        self.reading: Deadlines[Reception] = Deadlines(read_seconds, Reception.expire_reading)
        self.open: Deadlines[Reception] = Deadlines(ack_seconds, Reception.expire)


class Reception:
    """Takes the body of one request in, and gives the answer to `answer`."""

    __slots__ = (
        "_admission",
        "_answer",
        "_answered",
        "_client",
        "_headers",
        "_parts",
        "_raw_headers",
        "_receptions",
        "_target",
        "done",
    )

    def __init__(
        self,
        receptions: Receptions,
        raw_headers: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        answer: Callable[[Reply], None],
        client: Client,
        target: str | bytes,
    ) -> None:
        self._client = client
        self._target = target
        self._receptions = receptions
        self._raw_headers = raw_headers
        self._headers = headers
        self._answer = answer
        self._answered = receptions.stopwatch() if receptions.stopwatch else None
        self._admission: Admission | None = None
        self._parts: list[bytes | bytearray] = []
        self.done = False
        """Whether it was answered or abandoned. Then it takes nothing more in."""

    def admit(self) -> None:
        """Check what the headers tell, and start the deadlines."""
        try:
            self._admission = self._receptions.intake.admit(self._headers, _announced(self._headers))
        except Exception as exc:
            self.fail(exc)
            return
        self._receptions.open.add(self)

    def wait_for_body(self) -> None:
        """Start the read time-out, if the body is not complete."""
        if self._admission is not None:
            self._receptions.reading.add(self)

    def grow(self, chunk: bytes) -> None:
        """Take a piece of the body in."""
        if self.done or self._admission is None:
            return
        try:
            self._admission.grow(len(chunk))
            self._add(chunk)
        except Exception as exc:
            self.fail(exc)

    def complete(self) -> None:
        """Pass the body on: it is complete."""
        admission = self._admission
        if self.done or admission is None:
            return
        self._receptions.reading.discard(self)
        # The first part is always bytes.
        body = cast("bytes", self._parts[0]) if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._admission = None  # intake releases it
        if not body and b"upgrade" in self._headers:
            # The HTTP parser of another server may stop before the body if the request offers another protocol.
            admission.release()
            self.fail(StoreError("the server could not read the body; does a proxy add an Upgrade header?"))
            return
        try:
            self._receptions.intake.accept(self._raw_headers, self._headers, body, admission, self._stored)
        except Exception as exc:
            self.fail(exc)

    def abandon(self) -> None:
        """Stop: the sender has gone. A delivery that was passed on is stored all the same."""
        self._end()

    def expire(self) -> None:
        """Answer at the deadline. A late commit still counts the delivery; the retry is then a duplicate."""
        self.fail(TimeoutError())

    def expire_reading(self) -> None:
        """Answer that the body did not arrive in time."""
        self.fail(ReadTimeout("the body did not arrive in time"))

    def fail(self, error: BaseException) -> None:
        """Answer an error, if there is no answer yet."""
        if not self.done:
            self._end()
            self._reply(_reply_to(error, self._receptions.intake, self._sender))

    def _add(self, chunk: bytes) -> None:
        """Keep a piece of the body. Small ones are joined: each alone takes some 40 bytes more."""
        if len(chunk) >= _SMALL_CHUNK or not self._parts:
            self._parts.append(chunk)
        elif isinstance(last := self._parts[-1], bytearray):
            last += chunk
        else:
            self._parts.append(bytearray(chunk))

    def _stored(self, receipt: Receipt | BaseException) -> None:
        if isinstance(receipt, asyncio.CancelledError):
            self.fail(StoreError("the store was closed before it committed"))
        elif isinstance(receipt, BaseException):
            self.fail(receipt)
        elif not self.done:
            self._end()
            self._reply(acknowledged(receipt))

    def _sender(self) -> Mapping[str, str]:
        return sender_fields(self._client, self._target, self._headers)

    def _end(self) -> None:
        self.done = True
        self._receptions.open.discard(self)
        if self._admission is not None:  # the body is not complete
            self._receptions.reading.discard(self)
            self._parts.clear()
            self._admission.release()
            self._admission = None

    def _reply(self, reply: Reply) -> None:
        self._answer(reply)
        if self._answered is not None:
            self._answered(reply.status)


def sender_fields(client: Client, target: str | bytes, headers: Mapping[bytes, bytes]) -> Mapping[str, str]:
    """Return what tells the operator who sent a request, for the log. Behind a proxy the client is the proxy."""
    path = target if isinstance(target, str) else target.decode("latin-1")
    agent = headers.get(b"user-agent", b"").decode("latin-1")
    return {
        "client": client[0] if client else "?",
        "path": shortened(path.partition("?")[0], MAX_LOGGED),
        "user_agent": shortened(agent, MAX_LOGGED),
    }


def _reply_to(error: BaseException, intake: Intake, sender: Callable[[], Mapping[str, str]]) -> Reply:
    """Log an error and return its answer."""
    if isinstance(error, RejectedRequest):
        if intake.refusal_rate.allows(error.code):
            log.warning("delivery_refused", extra={"reason": error.code, "detail": str(error), **sender()})
        intake.emit_refused(error.status, error.code, str(error))
        return refused(error)
    reason, detail, cause = _fault(error)
    if intake.fault_rate.allows(reason):
        if cause is None:
            log.error("intake_failed", exc_info=error)
        else:
            log.error("delivery_not_stored", extra={"reason": cause})
    intake.emit_refused(503, reason, detail)
    return unavailable(detail)


def _fault(error: BaseException) -> tuple[str, str, str | None]:
    """Return the code of a fault of ours, what the sender may know of it, and its cause; None if that is a bug."""
    if isinstance(error, StoreError):
        reason = "overloaded" if isinstance(error, Overloaded) else "store_error"
        return reason, "the delivery could not be stored now; send it again", str(error)
    if isinstance(error, TimeoutError):
        cause = "the store did not commit within the deadline"
        return "deadline", "the delivery could not be stored in time; send it again", cause
    if isinstance(error, MemoryError):  # a traceback would need more memory
        cause = "there is not enough memory now"
        return "overloaded", "the delivery could not be stored now; send it again", cause
    return "fault", "the delivery could not be processed; send it again", None


def _announced(headers: Mapping[bytes, bytes]) -> int | None:
    """Return the announced length, or None. Another ASGI server may pass on a value that is not a number."""
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else None
