"""The operations of feedback: POST /v2/search/{id}/feedback and POST /v2/feedback."""

import uuid
from typing import Protocol

from receiver.emulator.account.feedback import MOST_REFUNDS, FeedbackReceipt
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Json
from receiver.emulator.scraping.cache import KeptScrapes, ScrapeExpired
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.feedback import read_endpoint_feedback, read_search_feedback


class AnsweredCalls(Protocol):
    """Knows the answers that something can be said of."""

    async def knows(self, team: str, job_id: str, endpoint: str) -> bool:
        """Tell whether such a call of the team was answered within a day."""

    async def take(self, team: str, job_id: str, *, pays: bool) -> FeedbackReceipt:
        """Keep a word on an answer."""


class FeedbackOperations:
    """Takes what callers say of answers. Only the first word on a search gives a credit back."""

    def __init__(self, calls: AnsweredCalls, kept: KeptScrapes, policy: RequestPolicy) -> None:
        self._calls = calls
        self._kept = kept
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [
            ApiOperation("POST", "/v2/search/{id}/feedback", self.of_search, "account"),
            ApiOperation("POST", "/v2/feedback", self.of_any, "account"),
        ]

    async def of_search(self, call: ApiCall) -> Answer:
        """Take feedback on a search."""
        read_search_feedback(call.body, self._policy)
        try:
            job_id = str(uuid.UUID(call.path["id"]))
        except ValueError:
            raise CallRefused(400, "Invalid job ID") from None
        return await self._take(call.team, job_id, "search")

    async def of_any(self, call: ApiCall) -> Answer:
        """Take feedback on a search, a scrape, a parsed file or a map."""
        read = read_endpoint_feedback(call.body, self._policy)
        return await self._take(call.team, str(read.job_id), read.endpoint)

    async def _take(self, team: str, job_id: str, endpoint: str) -> Answer:
        if not await self._exists(team, job_id, endpoint):
            raise CallRefused(404, "Job not found")
        receipt = await self._calls.take(team, job_id, pays=endpoint == "search")
        body: Json = {
            "success": True,
            "feedbackId": receipt.id,
            "creditsRefunded": receipt.refunded,
            "creditsRefundedToday": receipt.refunded_today,
            "dailyRefundCap": MOST_REFUNDS,
            "dailyCapReached": receipt.refunded_today >= MOST_REFUNDS,
        }
        if receipt.is_repeated:
            body["alreadySubmitted"] = True
        return Answer(body)

    async def _exists(self, team: str, job_id: str, endpoint: str) -> bool:
        if endpoint in ("search", "map"):
            return await self._calls.knows(team, job_id, endpoint)
        try:
            return await self._kept.find(team, job_id) is not None
        except ScrapeExpired:
            return False
