"""Operations of the SDKs beside the families: searches of special indexes, and what the emulator does not have."""

from typing import Literal, Protocol

from receiver.requests import prices
from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Handle, Json
from receiver.service.emulator.contracts import Account
from receiver.service.emulator.search.categories import category_of
from receiver.service.emulator.search.engine import SearchFindings
from receiver.service.emulator.wire.policy import RequestPolicy
from receiver.service.emulator.wire.searches import SearchPlan, read_developer_search, read_gov_search

_PAPERS = (
    "The emulator has no index of papers. POST /v2/search with categories ['research'] searches pages about them"
)
_DEEP = "The service gave up deep research, and the emulator does not have it: POST /v2/agent works on a question"
_LLMS = "The service gave up llms.txt files, and the emulator does not make them: POST /v2/map lists the pages"
_REMOVED = "The service removed this search on 2026-11-03. POST /v2/search/developer searches code pages"
ABSENT: dict[tuple[Literal["GET", "POST"], str], str] = {
    ("GET", "/v2/search/research/papers"): _PAPERS,
    ("GET", "/v2/search/research/papers/{id}"): _PAPERS,
    ("GET", "/v2/search/research/papers/{id}/similar"): _PAPERS,
    ("POST", "/v1/deep-research"): _DEEP,
    ("GET", "/v1/deep-research/{id}"): _DEEP,
    ("POST", "/v1/llmstxt"): _LLMS,
    ("GET", "/v1/llmstxt/{id}"): _LLMS,
}
"""What SDKs can call and the emulator does not do, with what does the same or nearly so."""


class FindPages(Protocol):
    """Finds pages for plans."""

    async def search(self, plan: SearchPlan) -> SearchFindings:
        """Return the hits of a search within its time-out."""


class OtherSearches:
    """Searches the emulator's own index, as far as its pages are of the kind that is asked for."""

    def __init__(self, engine: FindPages, account: Account, policy: RequestPolicy) -> None:
        self._engine = engine
        self._account = account
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations. What the emulator does not have is answered with status 501, and says so."""
        return [
            ApiOperation("POST", "/v2/search/gov", self.gov, "search"),
            ApiOperation("POST", "/v2/search/developer", self.developer, "search"),
            # The service's SDK 4.55 says that the API answers 410 from that day on.
            ApiOperation("GET", "/v2/search/research/github", _refuse(_REMOVED, 410), "account"),
            *(ApiOperation(method, path, _refuse(text), "account") for (method, path), text in ABSENT.items()),
        ]

    async def gov(self, call: ApiCall) -> Answer:
        """Answer with pages of governments."""
        plan, ignored = read_gov_search(call.body, self._policy)
        found = await self._found(plan, call.team)
        web = [
            {
                "url": hit.url,
                "title": hit.title,
                "description": hit.passage,
                "position": place,
                "category": category,
            }
            for place, hit in enumerate(found.web, 1)
            if (category := category_of(hit.url, plan.categories)) is not None
        ]
        return Answer(
            _with_warnings({"success": True, "data": {"web": web}}, [*_ignored(ignored), *found.warnings])
        )

    async def developer(self, call: ApiCall) -> Answer:
        """Answer with pages for developers."""
        plan, ignored = read_developer_search(call.body, self._policy)
        found = await self._found(plan, call.team)
        results = [
            {
                "id": hit.url,
                "url": hit.url,
                "title": hit.title,
                "passages": [{"text": hit.passage, "citation_url": hit.url}],
            }
            for hit in found.web
        ]
        return Answer(_with_warnings({"success": True, "results": results}, [*_ignored(ignored), *found.warnings]))

    async def _found(self, plan: SearchPlan, team: str) -> SearchFindings:
        found = await self._engine.search(plan)
        await self._account.charge(team, prices.SEARCH * -(-found.count // 10) + found.check_credits)
        return found


def _refuse(text: str, status: Literal[410, 501] = 501) -> Handle:
    async def refuse(call: ApiCall) -> Answer:
        raise CallRefused(status, text, code="NOT_IMPLEMENTED" if status == 501 else None)

    return refuse


def _ignored(filters: list[str]) -> list[str]:
    return [f"The emulator knows pages only: {', '.join(filters)} had no effect."] if filters else []


def _with_warnings(body: Json, warnings: list[str]) -> Json:
    return {**body, "warning": " ".join(dict.fromkeys(warnings))} if warnings else body
