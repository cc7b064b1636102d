"""The operations on a team's account: credits, tokens, the queue, feedback on answers, and a key for an agent."""

import re
import secrets
from datetime import datetime

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr
from typing_extensions import override

from receiver.core.clock import Clock
from receiver.emulator.account.account import CreditLedger, MonthOfCredits, QueueSource
from receiver.emulator.account.feedback import MOST_REFUNDS, FeedbackBook
from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, Handle, Json, OperationFamily
from receiver.emulator.clock import wire_time
from receiver.emulator.contracts import Account
from receiver.emulator.failures import CallRefused
from receiver.emulator.scraping.cache import KeptScrapes, ScrapeExpired
from receiver.emulator.wire.bodies import RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.feedback import read_endpoint_feedback, read_search_feedback

TOKENS_PER_CREDIT = 15


class AccountOperations(OperationFamily):
    """Answers what a team has, has used, and has running, in both versions."""

    def __init__(self, ledger: CreditLedger, queues: QueueSource, clock: Clock, *, max_concurrency: int) -> None:
        self._ledger = ledger
        self._queues = queues
        self._clock = clock
        self._max_concurrency = max_concurrency

    @override
    def operations(self) -> list[ApiOperation]:
        handlers: dict[str, Handle] = {
            "/team/credit-usage": lambda call: self._usage(call, "Credits", 1),
            "/team/token-usage": lambda call: self._usage(call, "Tokens", TOKENS_PER_CREDIT),
            "/team/credit-usage/historical": lambda call: self._history(call, "creditsUsed", 1),
            "/team/token-usage/historical": lambda call: self._history(call, "tokensUsed", TOKENS_PER_CREDIT),
            "/team/queue-status": self._queue,
            "/concurrency-check": self._concurrency,
        }
        return [
            ApiOperation("GET", f"/v{version}{path}", handle, "account")
            for version in (1, 2)
            for path, handle in handlers.items()
        ]

    async def _usage(self, call: ApiCall, unit: str, factor: int) -> Answer:
        start = _month(self._clock.now())
        remaining = await self._ledger.remaining(call.team) * factor
        fields = {
            f"remaining{unit}": remaining,
            f"plan{unit}": self._ledger.initial * factor,
            "billingPeriodStart": wire_time(start),
            "billingPeriodEnd": wire_time(_next_month(start)),
        }
        if call.version == 1:
            fields = {re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", name): fields[name] for name in fields}
        return Answer({"success": True, "data": fields})

    async def _history(self, call: ApiCall, name: str, factor: int) -> Answer:
        by_key = call.query.get("byApiKey", "").lower() == "true"
        months = await self._ledger.months(call.team) or [MonthOfCredits(_month(self._clock.now()), 0)]
        periods = [
            {
                "startDate": wire_time(month.start),
                "endDate": wire_time(_next_month(month.start)),
                **({"apiKey": f"key of team {call.team[:8]}"} if by_key else {}),
                name: month.credits * factor,
            }
            for month in months
        ]
        return Answer({"success": True, "periods": periods})

    async def _queue(self, call: ApiCall) -> Answer:
        found = await self._queues.queue_of(call.team)
        return Answer(
            {
                "success": True,
                "jobsInQueue": found.active + found.waiting,
                "activeJobsInQueue": found.active,
                "waitingJobsInQueue": found.waiting,
                "maxConcurrency": self._max_concurrency,
                "mostRecentSuccess": None if found.last_success is None else wire_time(found.last_success),
            }
        )

    async def _concurrency(self, call: ApiCall) -> Answer:
        found = await self._queues.queue_of(call.team)
        return Answer({"success": True, "concurrency": found.active, "maxConcurrency": self._max_concurrency})


def _month(moment: datetime) -> datetime:
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(start: datetime) -> datetime:
    year, month = divmod(start.year * 12 + start.month, 12)
    return start.replace(year=year, month=month + 1)


class FeedbackOperations(OperationFamily):
    """Takes feedback on answers. Only the first feedback on a search gives a credit back."""

    def __init__(self, book: FeedbackBook, kept: KeptScrapes, policy: RequestPolicy) -> None:
        self._book = book
        self._kept = kept
        self._policy = policy

    @override
    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation("POST", "/v2/search/{id}/feedback", self.of_search, "account"),
            ApiOperation("POST", "/v2/feedback", self.of_any, "account"),
        ]

    async def of_search(self, call: ApiCall) -> Answer:
        """Take feedback on a search."""
        read_search_feedback(call.body, self._policy)
        return await self._take(call.team, call.uuid(), "search")

    async def of_any(self, call: ApiCall) -> Answer:
        """Take feedback on a search, a scrape, a parsed file or a map."""
        read = read_endpoint_feedback(call.body, self._policy)
        return await self._take(call.team, str(read.job_id), read.endpoint)

    async def _take(self, team: str, job_id: str, endpoint: str) -> Answer:
        if not await self._exists(team, job_id, endpoint):
            raise CallRefused(404, "Job not found")
        receipt = await self._book.take(team, job_id, pays=endpoint == "search")
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
            return await self._book.knows(team, job_id, endpoint)
        try:
            return await self._kept.find(team, job_id) is not None
        except ScrapeExpired:
            return False


_SIGNUP = "/v2/agent-signup"
_POLICY = RequestPolicy()


class SignupBody(BaseModel):
    """The body of POST /v2/agent-signup. Its names have underscores, as the service has them."""

    model_config = ConfigDict(extra="ignore")

    email: StrictStr
    """The address of the person who answers for the agent. Nothing is sent to it."""
    agent_name: StrictStr
    accept_terms: StrictBool
    """Whether the terms are accepted. The emulator has none."""


class RegistrationOperations(OperationFamily):
    """Explains how an agent without a key gets one here, and gives one where any key passes."""

    def __init__(self, keys: ApiKeys, account: Account) -> None:
        self._keys = keys
        self._account = account

    @override
    def operations(self) -> list[ApiOperation]:
        """Callers need no key for them."""
        return [
            ApiOperation("GET", _SIGNUP, self.explain, "account", needs_key=False),
            ApiOperation("POST", _SIGNUP, self.sign_up, "account", needs_key=False),
        ]

    async def explain(self, call: ApiCall) -> Answer:
        """Say how to get a key here."""
        return Answer({"success": True, "message": self._keys.advice})

    async def sign_up(self, call: ApiCall) -> Answer:
        """Give a key. CallRefused with status 403 where only the configured keys pass."""
        read = read_body(SignupBody, call.body, _POLICY)
        if "@" not in read.email.strip("@") or not read.agent_name.strip() or not read.accept_terms:
            rule = "email has to be an address, agent_name a text, and accept_terms true"
            raise refusal([custom_issue(rule)])
        if not self._keys.anyone_passes:
            raise CallRefused(403, self._keys.advice, hints=[self._keys.advice])
        key = f"fc-{secrets.token_hex(16)}"
        left = await self._account.remaining(self._keys.team_of(f"Bearer {key}"))
        answer = {
            "success": True,
            "api_key": key,
            "sponsor_status": "verified",
            "credit_limit": left,
            "credits_remaining": left,
            "message": "No mail was sent: this is an emulator, whose keys need no confirmation.",
        }
        return Answer(answer, 201)
