"""The account operations of both versions: credits, tokens, the queue."""

from datetime import datetime

from receiver.core.clock import Clock
from receiver.emulator.account.account import CreditLedger, MonthOfCredits, QueueSource
from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, Json
from receiver.emulator.clock import wire_time

TOKENS_PER_CREDIT = 15
_LIMIT = "account"


class AccountOperations:
    """Answers what a team has, has used, and has running."""

    def __init__(self, ledger: CreditLedger, queues: QueueSource, clock: Clock, *, max_concurrency: int) -> None:
        self._ledger = ledger
        self._queues = queues
        self._clock = clock
        self._max_concurrency = max_concurrency

    def operations(self) -> list[ApiOperation]:
        """Return the operations of both versions."""
        handlers = {
            "/team/credit-usage": self._credits,
            "/team/token-usage": self._tokens,
            "/team/credit-usage/historical": self._credit_history,
            "/team/token-usage/historical": self._token_history,
            "/team/queue-status": self._queue,
            "/concurrency-check": self._concurrency,
        }
        return [
            ApiOperation("GET", f"/v{version}{path}", handle, _LIMIT)
            for version in (1, 2)
            for path, handle in handlers.items()
        ]

    async def _credits(self, call: ApiCall) -> Answer:
        return Answer(await self._usage(call, "Credits", 1))

    async def _tokens(self, call: ApiCall) -> Answer:
        return Answer(await self._usage(call, "Tokens", TOKENS_PER_CREDIT))

    async def _usage(self, call: ApiCall, unit: str, factor: int) -> Json:
        start = _month(self._clock.now())
        remaining = await self._ledger.remaining(call.team) * factor
        fields = {
            f"remaining{unit}": remaining,
            f"plan{unit}": self._ledger.initial * factor,
            "billingPeriodStart": wire_time(start),
            "billingPeriodEnd": wire_time(_next_month(start)),
        }
        if call.version == 1:
            fields = {_snake(name): value for name, value in fields.items()}
        return {"success": True, "data": fields}

    async def _credit_history(self, call: ApiCall) -> Answer:
        return Answer(await self._history(call, "creditsUsed", 1))

    async def _token_history(self, call: ApiCall) -> Answer:
        return Answer(await self._history(call, "tokensUsed", TOKENS_PER_CREDIT))

    async def _history(self, call: ApiCall, name: str, factor: int) -> Json:
        by_key = call.query.get("byApiKey", "").lower() == "true"
        months = await self._ledger.months(call.team)
        if not months:
            months = [MonthOfCredits(_month(self._clock.now()), 0)]
        periods = [
            {
                "startDate": wire_time(month.start),
                "endDate": wire_time(_next_month(month.start)),
                **({"apiKey": f"key of team {call.team[:8]}"} if by_key else {}),
                name: month.credits * factor,
            }
            for month in months
        ]
        return {"success": True, "periods": periods}

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


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
