"""Feedback on answers: what it can be given on, and the credit that it gives back."""

from datetime import timedelta

from receiver.emulator.account import feedback
from tests.emulator.answering import ORIGIN, CheckedService, Json, checked_service

UNKNOWN = "019f2c10-0000-7000-8000-000000000001"
GOOD: Json = {"rating": "good", "valuableSources": [{"url": f"{ORIGIN}/lamp"}], "origin": "js-sdk@4"}


async def searched(service: CheckedService) -> str:
    """Search, and return the id of the search."""
    job_id: str = (await service.ask("POST", "/v2/search", {"query": "lamp"}))["id"]
    return job_id


async def left(service: CheckedService) -> int:
    usage = await service.ask("GET", "/v2/team/credit-usage")
    return int(usage["data"]["remainingCredits"])


async def test_the_first_word_on_a_search_gives_a_credit_back() -> None:
    async with checked_service() as service:
        job_id = await searched(service)
        before = await left(service)
        first = await service.ask("POST", f"/v2/search/{job_id}/feedback", GOOD)
        again = await service.ask("POST", "/v2/feedback", {**GOOD, "endpoint": "search", "jobId": job_id})
        after = await left(service)
        months = (await service.ask("GET", "/v2/team/credit-usage/historical"))["periods"]

    assert (first["creditsRefunded"], again["creditsRefunded"], after - before) == (1, 0, 1)
    assert (first["feedbackId"], True) == (again["feedbackId"], again["alreadySubmitted"])
    assert months[-1]["creditsUsed"] == 100_000 - after


async def test_a_team_gets_so_much_back_on_one_day() -> None:
    async with checked_service() as service:
        for _ in range(feedback.MOST_REFUNDS):
            await service.ask("POST", f"/v2/search/{await searched(service)}/feedback", GOOD)
        over = await service.ask("POST", f"/v2/search/{await searched(service)}/feedback", GOOD)
        await service.clock.advance(timedelta(days=1))
        next_day = await service.ask("POST", f"/v2/search/{await searched(service)}/feedback", GOOD)

    assert (over["creditsRefunded"], over["dailyCapReached"], over["dailyRefundCap"]) == (0, True, 100)
    assert (next_day["creditsRefunded"], next_day["dailyCapReached"]) == (1, False)


async def test_other_answers_take_a_word_without_a_refund() -> None:
    async with checked_service() as service:
        scrape = await service.ask("POST", "/v2/scrape", {"url": f"{ORIGIN}/lamp"})
        listed = await service.ask("POST", "/v2/map", {"url": ORIGIN})
        of_scrape = {"endpoint": "scrape", "jobId": scrape["data"]["metadata"]["scrapeId"], "rating": "bad"}
        of_map = {"endpoint": "map", "jobId": listed["id"], "rating": "partial", "issues": ["missing"], "note": "x"}
        found = [await service.ask("POST", "/v2/feedback", body) for body in (of_scrape, of_map)]

    assert [one["creditsRefunded"] for one in found] == [0, 0]


async def test_only_answers_of_the_team_within_a_day_are_known() -> None:
    async with checked_service() as service:
        job_id = await searched(service)
        path = f"/v2/search/{job_id}/feedback"
        other = {"headers": {"Authorization": "Bearer fc-other"}}
        await service.ask("POST", path, GOOD, status=404, **other)
        await service.ask("POST", f"/v2/search/{UNKNOWN}/feedback", GOOD, status=404)
        await service.ask("POST", "/v2/search/x/feedback", GOOD, status=400)
        await service.ask("POST", path, {"rating": "best"}, status=400)
        await service.ask("POST", "/v2/feedback", {"rating": "bad", "endpoint": "scrape", "jobId": "x"}, status=400)
        await service.ask("POST", "/v2/feedback", {"rating": "bad", "endpoint": "map", "jobId": job_id}, status=404)
        await service.clock.advance(timedelta(days=1))
        await service.ask("POST", path, GOOD, status=404)
