"""The webhook endpoint, for ASGI and for our own server: a request from the end of its headers to its answer."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, TypeVar, cast

from starlette.types import Receive, Scope, Send

from receiver.core.deliveries import Receipt
from receiver.core.text import shortened
from receiver.errors import Overloaded, ReadTimeout, RejectedRequest, StoreError
from receiver.runtime.log_lines import event_log
from receiver.web.intake import Admission, Intake
from receiver.web.replies import Reply, acknowledged, method_not_allowed, refused, send_reply, unavailable

Item = TypeVar("Item")


class Deadlines(Generic[Item]):
    """Calls `expire` with each item that was not discarded within `seconds` after it was added.

    One timer of the event loop serves all: nearly all items are discarded after milliseconds.
    """

    def __init__(self, seconds: float, expire: Callable[[Item], None]) -> None:
        """It belongs to the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._expire = expire
        self._due: OrderedDict[Item, float] = OrderedDict()  # in the order of their deadlines
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def add(self, item: Item) -> None:
        """Start the time of an item. An item that is waiting keeps its time."""
        due = self._loop.time() + self._seconds
        self._due.setdefault(item, due)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._expire_due)

    def discard(self, item: Item) -> None:
        """Stop the time of an item. An item that is not waiting changes nothing."""
        self._due.pop(item, None)

    def first(self) -> Item:
        """Return the item that has waited for the longest time. Raises StopIteration if none is waiting."""
        return next(iter(self._due))

    def close(self) -> None:
        """Forget all items."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire_due(self) -> None:
        now = self._loop.time()
        try:
            while self._due and self._first_due() <= now:
                item, _ = self._due.popitem(last=False)
                self._expire(item)
        finally:  # an error with one item does not stop the time of the others
            self._timer = self._loop.call_at(self._first_due(), self._expire_due) if self._due else None

    def _first_due(self) -> float:
        return next(iter(self._due.values()))


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
        """Check the headers, and start the deadlines."""
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
    """Return the fields of the log that show who sent a request. With a proxy, the client is the proxy."""
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


class WebhookEndpoint:
    """Takes deliveries at one path.

    It answers within `ack_deadline` after the request's headers, and with 2xx only when the delivery is durable. It
    answers its own errors with 503 and not 500, so that the sender tries again.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        read_timeout: timedelta,
        ack_deadline: timedelta,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._receptions = Receptions(
            intake,
            read_seconds=read_timeout.total_seconds(),
            ack_seconds=ack_deadline.total_seconds(),
            stopwatch=stopwatch,
        )

    def begin(
        self,
        raw_headers: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        answer: Callable[[Reply], None],
        *,
        client: Client,
        target: str | bytes,
    ) -> Reception:
        """Begin to receive a POST, as our own server does it: a task and messages for each would cost more than it.

        `answer` is called once, perhaps before this returns. `client` and `target` are for the log.
        """
        reception = Reception(self._receptions, raw_headers, headers, answer, client, target)
        reception.admit()
        return reception

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            await send_reply(method_not_allowed("POST"), send)
            return
        answered: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply | None) -> None:
            if not answered.done():
                answered.set_result(reply)

        headers = scope["headers"]
        client, target = scope.get("client"), scope.get("path", "")
        reception = self.begin(headers, dict(headers), answer, client=client, target=target)
        feeding = asyncio.ensure_future(_feed(receive, reception, gone=lambda: answer(None)))
        try:
            reply = await answered
        finally:
            feeding.cancel()
            reception.abandon()
        if reply is not None:
            await send_reply(reply, send)


async def _feed(receive: Receive, reception: Reception, *, gone: Callable[[], None]) -> None:
    """Give the messages of a request to its reception until that needs no more."""
    reception.wait_for_body()
    try:
        while not reception.done:
            message = await receive()
            if message["type"] == "http.disconnect":
                reception.abandon()
                gone()
                return
            reception.grow(message.get("body", b""))
            if not message.get("more_body", False):
                reception.complete()
                return
    except Exception as exc:
        reception.fail(exc)
