"""What a scrape costs in credits: the rules of the service's billing, in its order."""

from receiver.requests import prices
from receiver.service.emulator.scrapes import ScrapePlan


def credits_of(
    plan: ScrapePlan, *, num_pages: int | None = None, check_credits: int = 0, reused: bool = False
) -> int:
    """Return the credits of a scrape that succeeded.

    `num_pages` are the pages of a PDF that were read, `check_credits` what the checks of its addresses cost, and
    `reused` says that a deterministicJson program was there already.
    """
    names = {one["type"] for one in plan.formats}
    extracts = bool(names & {"json", "extract"}) or "json" in (plan.format("changeTracking") or {}).get("modes", ())
    cost = prices.LOCKDOWN if plan.lockdown else prices.PAGE
    if "deterministicJson" in names:
        cost = prices.REUSED_JSON if reused else prices.DETERMINISTIC_JSON
    elif extracts:
        cost = prices.JSON
    cost += prices.EXTRA * (not names.isdisjoint({"question", "query"}))
    cost += prices.EXTRA * len(names & (prices.EXTRA_FORMATS - {"question"}))
    if plan.zero_data_retention and not plan.lockdown:
        cost += prices.UNKEPT
    further = max(0, (num_pages or 1) - 1)
    cost += prices.PAGE * further
    if plan.redact_pii:
        cost += prices.EXTRA * (1 + further)
    if plan.proxy in ("enhanced", "stealth"):
        cost += prices.ENHANCED - prices.PAGE
    return cost + check_credits
