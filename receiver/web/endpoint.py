"""The webhook endpoint, as an ASGI app and for our own server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from starlette.types import Receive, Scope, Send

from receiver.web.intake import Intake
from receiver.web.reception import Client, Reception, Receptions, Stopwatch
from receiver.web.replies import Reply, method_not_allowed, send_reply


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
