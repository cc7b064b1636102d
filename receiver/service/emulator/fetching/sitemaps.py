"""The sitemaps of a site: where they are, and what they and those that they name list."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta
from urllib.parse import urlunsplit

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.fetching.fetcher import Fetcher
from receiver.service.emulator.fetching.robots import RobotsRules
from receiver.service.emulator.fetching.sitemap_files import MAX_SITEMAP_BYTES, SitemapFile, read_sitemap
from receiver.service.emulator.fetching.url_scopes import scope_folder
from receiver.service.emulator.fetching.web_urls import (
    host_of,
    joined,
    origin_of,
    registrable_domain,
    split_web_url,
    without_credentials,
)

MAX_SITEMAPS = 20
SITEMAP_TIMEOUT = timedelta(seconds=15)


async def sitemap_urls(fetcher: Fetcher, url: str, robots: RobotsRules) -> AsyncGenerator[str, None]:
    """Yield the URLs in the sitemaps of the site that a crawl of `url` looks at, each once, file by file.

    These are the ones that robots.txt names, those in the scope's folder, at the root and at the registrable
    domain, and those that they name in turn: at most 20 files. A file that cannot be read lists nothing.
    """
    waiting = deque(dict.fromkeys([*robots.sitemaps, *_usual_places(url)]))
    asked: set[str] = set()
    known: set[int] = set()  # hashes: a million long URLs would need much memory
    while waiting and len(asked) < MAX_SITEMAPS:
        address = waiting.popleft()
        if address in asked or split_web_url(address) is None:
            continue
        asked.add(address)
        file = await _fetched(fetcher, address)
        waiting.extend(joined(address, one) for one in file.sitemaps[:MAX_SITEMAPS])
        for page in file.pages:
            found = without_credentials(joined(address, page))
            if hash(found) not in known and split_web_url(found) is not None:
                known.add(hash(found))
                yield found


async def _fetched(fetcher: Fetcher, address: str) -> SitemapFile:
    try:
        page = await fetcher.fetch_file(address, timeout=SITEMAP_TIMEOUT, max_bytes=MAX_SITEMAP_BYTES, cut=True)
    except ScrapeFailed:
        return SitemapFile()
    return await asyncio.to_thread(read_sitemap, page.body) if page.status == 200 else SitemapFile()


def _usual_places(url: str) -> Iterator[str]:
    parts = split_web_url(without_credentials(url))
    if parts is None:
        return
    origin = origin_of(parts)
    yield urlunsplit(parts._replace(path=f"{scope_folder(parts.path)}sitemap.xml", query="", fragment=""))
    yield f"{origin}/sitemap.xml"
    host = host_of(parts)
    if registrable_domain(host) != host:
        yield origin.replace(host, registrable_domain(host), 1) + "/sitemap.xml"
