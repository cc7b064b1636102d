"""A store in memory, webhooks that arrived, and a service with fixed answers about jobs."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery, DeliveryFilter
from receiver.core.envelope import read_envelope
from receiver.core.types import AppendOutcome, Origin
from receiver.replay.backfill.comparing import Missing, Spool, compare, delivered, to_import
from receiver.replay.backfill.production import Asked, produced
from receiver.service.client import AsyncClient
from tests.doubles import NOON, OpenStore, appended
from tests.service.client.calling import BASE, KEY, Steady, Ticking

JOB = "019f2c10-0001-7a00-8b00-000000001eef"


def document(number: int, **metadata: Any) -> dict[str, Any]:
    """Return a page in the form that webhooks and status answers share."""
    known = {"sourceURL": f"https://example.com/{number}", "scrapeId": f"scrape-{number}", "statusCode": 200}
    return {"markdown": f"# Page {number}", "metadata": known | metadata}


def sent(kind: str, webhook_id: str, data: Any = (), *, success: bool = True, **more: Any) -> Delivery:
    """Return a delivery as the webhook sends it."""
    payload = {"success": success, "type": kind, "id": JOB, "webhookId": webhook_id, "data": list(data), **more}
    return read_envelope((), json.dumps(payload).encode(), received_at=NOON)


class Service:
    """Answers by path and query; what has no answer is not found. It keeps what was asked."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        """Of refusals."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        path = request.url.raw_path.decode()
        self.asked.append(path)
        answer = self.answers.get(path, self.answers.get(request.url.path))
        if answer is None:
            return httpx.Response(404, json={"success": False, "error": "Job not found"})
        if isinstance(answer, int):
            return httpx.Response(answer, json={"success": False, "error": "no"}, headers=self.headers)
        return httpx.Response(200, content=json.dumps(answer))


def crawl(
    *documents: dict[str, Any],
    status: str = "completed",
    errors: Any = (),
    path: str = "crawl",
    job_id: str = JOB,
) -> Service:
    """Return a service with one crawl or batch."""
    found = {"success": True, "status": status, "total": 9, "completed": len(documents), "data": list(documents)}
    return Service({f"/v2/{path}/{job_id}": found, f"/v2/{path}/{job_id}/errors": {"errors": list(errors)}})


class World:
    """The store, the clock, the client and the service of a backfill."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.job_id = JOB
        self.store = OpenStore()
        self.clock = VirtualClock(NOON)
        self.client = AsyncClient(
            KEY, BASE, clock=Ticking(NOON), rng=Steady(), transport=httpx.MockTransport(service)
        )
        self.spool = Spool()

    async def add(self, *deliveries: Delivery) -> None:
        """Store deliveries that arrived."""
        for one in deliveries:
            await appended(self.store, one)

    async def compare(self, family: str | None = None, monitor_id: str | None = None, **options: Any) -> Missing:
        """Return the missing events of the job."""
        found = await delivered(self.store, self.job_id)
        asked = Asked(self.job_id, found.family or family or "", found.monitor_id or monitor_id)
        return await compare(found, produced(self.client, asked), self.spool, **options)

    async def import_deliveries(self, missing: Missing) -> Counter[AppendOutcome]:
        """Import the missing events, and return the outcomes."""
        outcomes: Counter[AppendOutcome] = Counter()
        async for part in to_import(missing, self.spool, self.store, self.clock, origin=Origin.BACKFILL):
            outcomes.update(await self.store.import_deliveries(part))
        return outcomes

    async def backfill(self, **options: Any) -> Counter[AppendOutcome]:
        """Compare and import."""
        return await self.import_deliveries(await self.compare(**options))

    async def stored(self) -> list[Delivery]:
        """Return the stored deliveries, the oldest first."""
        return [one.delivery async for one in self.store.iter_deliveries(DeliveryFilter())]

    async def made(self) -> list[dict[str, Any]]:
        """Return the bodies of the imported deliveries, the oldest first."""
        return [json.loads(one.body) for one in await self.stored() if one.key.startswith("backfill:")]
