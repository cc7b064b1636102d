"""Deliveries in numbers, and a note of which were acknowledged."""

import asyncio
import hashlib
import json
import random
import time
import uuid
from array import array
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.process.wire import Connection, connection


@dataclass
class Load:
    """A sender of unique signed deliveries that remembers what was acknowledged, and sends again what was not.

    Only a complete 2xx answer counts. As from the real service, some deliveries have no webhookId, and a delivery
    that got no 2xx comes again with the same bytes.
    """

    rng: random.Random
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    """Digest of the body by delivery key."""
    sent: set[bytes] = field(default_factory=set)
    """Digests of all bodies that were ever sent."""
    answers: Counter[int] = field(default_factory=Counter)
    seconds: "array[float]" = field(default_factory=lambda: array("f"))
    """How long each answer took."""
    repeated: int = 0
    _again: deque[bytes] = field(default_factory=deque)

    def body(self) -> bytes:
        """Return a new body, mostly small, at times large."""
        [size] = self.rng.choices((10, 500, 2_000, 20_000, 200_000), (40, 30, 30, 10, 1))
        content: dict[str, Any] = {
            "success": True,
            "type": "crawl.page",
            "id": str(uuid.UUID(int=self.rng.getrandbits(128))),
            "webhookId": str(uuid.UUID(int=self.rng.getrandbits(128))),
            "data": [{"markdown": self.rng.randbytes(size // 2).hex(), "metadata": {"statusCode": 200}}],
        }
        if self.rng.random() < 0.2:
            del content["webhookId"]
        return json.dumps(content).encode()

    async def run(self, port: int, *, connections: int = 6) -> None:
        """Send on several connections until cancelled, or until none of them gets through any more."""
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(self._send_until_broken(port))

    async def send(self, port: int, count: int, *, connections: int = 6) -> None:
        """Send so many deliveries, once each; those that are not acknowledged are kept for the next time."""
        left = iter(range(count))

        async def some() -> None:
            async with connection(port) as line:
                for _ in left:
                    await self._send_one(line)

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(some())

    async def send_again(self, port: int) -> None:
        """Send everything that was not acknowledged, as the service does some minutes later."""
        await self.send(port, len(self._again))

    async def _send_until_broken(self, port: int) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with connection(port) as line:
                while True:
                    await self._send_one(line)

    async def _send_one(self, line: Connection) -> None:
        if self._again:
            body = self._again.popleft()
            self.repeated += 1
        else:
            body = self.body()
        digest = hashlib.sha256(body).digest()
        self.sent.add(digest)
        started = time.monotonic()
        try:
            answer = await line.post(body)
        except BaseException:
            self._again.append(body)
            raise
        self.seconds.append(time.monotonic() - started)
        self.answers[answer.status] += 1
        if not 200 <= answer.status < 300:
            self._again.append(body)
            return
        key = json.loads(body).get("webhookId", f"sha256:{digest.hex()}")
        assert answer.json()["id"] == key
        self.acknowledged[key] = digest

    def check_stored(self, stored: dict[str, bytes]) -> None:
        """Check that all that was acknowledged is stored as it was sent, and nothing that was never sent."""
        lost = {key for key, digest in self.acknowledged.items() if stored.get(key) != digest}
        assert not lost, f"{len(lost)} acknowledged deliveries are not stored as they were sent: {sorted(lost)[:3]}"
        assert set(stored.values()) <= self.sent, "something is stored that was not sent so"
