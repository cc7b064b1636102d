"""Every operation of the service's API: scrape, parse, map, search, crawl, batch, extract, agent, monitors.

It starts jobs, which cost credits, and cancels them again. Set RECEIVER_API_KEY, and RECEIVER_PUBLIC_URL to where
the service reaches your receiver; RECEIVER_BASE_URL is for a service of your own:

    python examples/every_operation.py https://example.com
"""

import asyncio
import sys

from receiver import AsyncClient, Client, Conflict, Settings, load_settings
from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MonitorChanges,
    MonitorRequest,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeTarget,
    estimate_credits,
)


async def pages(client: AsyncClient, settings: Settings, url: str) -> None:
    """Scrape one page directly; crawl a site and a list of pages as jobs, whose events come to the receiver."""
    request = ScrapeRequest(url=url, formats=["markdown", "links"], wait_for=500)
    estimate = estimate_credits(request)
    document = await client.scrape(request)
    print(f"scraped {document.url} for {estimate.low} to {estimate.high} credits: {len(document.links)} links")
    report = await client.parse(b"<h1>Prices</h1>", "prices.html", formats=["markdown"])
    print(f"read a file: {report.markdown}")

    site = await client.map(url, limit=10)
    hits = await client.search("prices", limit=5, sources=["web"])
    print(f"URLs found: {len(site.links)} by a map, {len(hits.data.web)} by a search")

    crawl = await client.crawl(
        CrawlRequest(url=url, limit=10, scrape_options=ScrapeOptions(only_main_content=True)),
        webhook=settings.webhook(events=["page", "completed"], metadata={"from": "example"}),
        idempotency_key="an example",  # in handlers ctx.delivery.id: a second attempt starts no second crawl
    )
    job = crawl.id or ""
    print(f"crawl {job} is {(await client.crawl_status(job, limit=1)).status}")
    found = [document async for page in client.crawl_pages(job) for document in page.data]
    errors = await client.crawl_errors(job)
    print(f"{len(found)} pages, {len(errors.errors)} failed, {len(errors.robots_blocked)} forbidden")
    print(f"{len(await client.active_crawls())} crawls under way")
    try:
        await client.cancel_crawl(job)
    except Conflict:
        print("it was over")

    batch = await client.batch_scrape(
        BatchScrapeRequest(urls=[url], formats=["markdown"]), webhook=settings.webhook()
    )
    job = batch.id or ""
    print(f"batch {job} is {(await client.batch_status(job)).status}")
    found = [document async for page in client.batch_pages(job, limit=100) for document in page.data]
    print(f"{len(found)} pages, {len((await client.batch_errors(job)).errors)} failed")
    await client.cancel_batch(job)


async def data(client: AsyncClient, settings: Settings, url: str) -> None:
    """Structured data, by an extraction and by an agent."""
    extract = await client.extract(ExtractRequest(urls=[url], prompt="What is sold here?", show_sources=True))
    print(f"extraction: {(await client.extract_status(extract.id or '')).status}")

    request = AgentRequest(prompt="What is sold here?", urls=[url], max_credits=10)
    agent = await client.agent(request, webhook=settings.webhook(events=["action", "completed", "failed"]))
    print(f"agent: {(await client.agent_status(agent.id or '')).status}")
    await client.cancel_agent(agent.id or "")


def monitors(client: Client, settings: Settings, url: str) -> None:
    """Create, run and delete a monitor, in plain code."""
    monitor = client.create_monitor(
        MonitorRequest(
            name="an example",
            schedule=Schedule(cron="0 9 * * 1", timezone="Europe/Berlin"),
            targets=[ScrapeTarget(urls=[url])],
            webhook=settings.webhook(events=["check.completed"]),
        )
    )
    me = monitor.id or ""
    client.update_monitor(me, MonitorChanges(goal="prices change"))
    print(f"{client.monitor(me).name}, one of {len(client.monitors(limit=100))}")

    check = client.run_monitor(me)
    print(f"check {check.id} is {client.check(me, check.id or '').status}, {len(client.checks(me))} in all")
    for part in client.check_pages(me, check.id or "", status="changed"):
        for page in part.pages:
            print(f"{page.url} changed")
    client.delete_monitor(me)
    print(f"{client.queue_status().jobs_in_queue} jobs in the queue")


async def main(url: str) -> None:
    """Async code and plain code have the same operations."""
    settings = load_settings()
    async with AsyncClient(settings.plain_api_key(), settings.base_url) as client:
        await pages(client, settings, url)
        await data(client, settings, url)
    with Client(settings.plain_api_key(), settings.base_url) as plain:
        monitors(plain, settings, url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
