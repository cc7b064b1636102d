"""Posts alerts, signed by Standard Webhooks: https://www.standardwebhooks.com"""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from receiver.core.addresses import is_loopback, is_private
from receiver.core.clock import Clock, time_limit
from receiver.core.signing import sign_standard
from receiver.errors import AlertNotSent
from receiver.signals.alerts.messages import AlertMessage

if TYPE_CHECKING:  # it takes long to load, and few processes post
    import httpx

_WITHIN = timedelta(seconds=15)
_SUCCESS = range(200, 300)


class AlertPoster:
    """Posts messages to one URL. It follows no redirect, and reads no body of an answer.

    The URL is a secret: no error and no log line has more of it than the host.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None,
        clock: Clock,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock
        self._transport = transport
        self.host = urlsplit(url).hostname or ""
        """Where messages go, for people."""

    async def post(self, message: AlertMessage) -> None:
        """Post a message once. Raises AlertNotSent unless the answer is 2xx."""
        try:
            async with (
                time_limit(self._clock, _WITHIN),
                await self._open() as client,
                client.stream("POST", self._url, content=message.body, headers=self._headers(message)) as answer,
            ):
                status = answer.status_code
        except TimeoutError:
            raise AlertNotSent(f"{self.host} did not answer within {_WITHIN.seconds} s") from None
        except Exception as exc:  # of many kinds, for proxies and certificates too; its text may have the URL
            raise AlertNotSent(f"{self.host} cannot be reached ({type(exc).__name__})") from None
        if status not in _SUCCESS:
            raise AlertNotSent(f"{self.host} answered {status}: check RECEIVER_ALERT_URL")

    async def _open(self) -> "httpx.AsyncClient":
        """Return a client. The library and certificates are loaded in a thread: requests of senders do not wait."""
        return await asyncio.to_thread(self._client) if self._transport is None else self._client()

    def _client(self) -> "httpx.AsyncClient":
        import httpx

        inside = is_loopback(self.host) or is_private(self.host)  # a proxy would look in its own network
        return httpx.AsyncClient(transport=self._transport, timeout=_WITHIN.seconds, trust_env=not inside)

    def _headers(self, message: AlertMessage) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "crawl-receiver",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign_standard(
                message.body, self._secret, message_id=message.id, timestamp=timestamp
            )
        return headers
