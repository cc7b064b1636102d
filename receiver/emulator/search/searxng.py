"""Searches of the whole web by a SearXNG server (https://docs.searxng.org/dev/search_api.html)."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from receiver.emulator.content.metadata import moment_of
from receiver.emulator.fetching.web_urls import split_web_url
from receiver.emulator.search.finding import PageHit, PictureHit
from receiver.errors import ReceiverError

MAX_ANSWER = 10_000_000
"""Bytes of an answer that are read."""
_CATEGORIES = {"web": "general", "news": "news", "images": "images"}
_MOST_PAGES = 5
_SECONDS = 60.0
_SIZE = re.compile(r"(\d{1,6})\s*\D\s*(\d{1,6})", re.IGNORECASE)

Json = dict[str, Any]


class SearxngFailed(ReceiverError):
    """The server gave no usable answer. The text says why to the caller of the API."""


class SearxngClient:
    """One SearXNG server, whose `search.formats` include `json`."""

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = url.rstrip("/").removesuffix("/search") + "/search"
        self._client = httpx.AsyncClient(transport=transport, timeout=_SECONDS, trust_env=False)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def pages(self, query: str, source: str, most: int, *, time_range: str, seconds: float) -> list[PageHit]:
        """Return pages or news, each once. Raises SearxngFailed."""
        found = await self._results(query, source, most, time_range, seconds)
        return [_page_hit(one) for one in found]

    async def images(self, query: str, most: int, *, time_range: str, seconds: float) -> list[PictureHit]:
        """Return images, each once. Raises SearxngFailed."""
        found = await self._results(query, "images", most, time_range, seconds)
        return [hit for one in found if (hit := _picture_hit(one)) is not None]

    async def _results(
        self, query: str, source: str, most: int, time_range: str, seconds: float
    ) -> list[Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        try:
            async with asyncio.timeout(seconds):
                for page in range(1, _MOST_PAGES + 1):
                    before = len(found)
                    for one in _listed(await self._ask(query, source, time_range, page)):
                        found.setdefault(str(one["url"]), one)
                    if len(found) >= most or len(found) == before:
                        break
        except TimeoutError:
            raise SearxngFailed(f"it did not answer within {seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise SearxngFailed(f"it cannot be reached: {type(exc).__name__}") from None
        return list(found.values())[:most]

    async def _ask(self, query: str, source: str, time_range: str, page: int) -> bytes:
        asked = {"q": query, "format": "json", "categories": _CATEGORIES[source], "pageno": str(page)}
        if time_range:
            asked["time_range"] = time_range
        body = bytearray()
        async with self._client.stream("GET", self._url, params=asked) as response:
            if response.status_code != httpx.codes.OK:
                raise SearxngFailed(f"it answered {response.status_code}")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_ANSWER:
                    raise SearxngFailed("its answer is too long")
        return bytes(body)


def _listed(answer: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        results = json.loads(answer)["results"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise SearxngFailed("its answer is not JSON with results: are its formats set?") from None
    for one in results if isinstance(results, list) else ():
        if isinstance(one, dict) and isinstance(one.get("url"), str) and split_web_url(one["url"]) is not None:
            yield one


def _page_hit(one: Mapping[str, Any]) -> PageHit:
    moment = moment_of(_text(one.get("publishedDate")))
    return PageHit(
        url=str(one["url"]),
        title=_text(one.get("title")),
        passage=_text(one.get("content")),
        published="" if moment is None else moment.isoformat(),
        picture=_web_text(one.get("img_src")) or _web_text(one.get("thumbnail")),
    )


def _picture_hit(one: Mapping[str, Any]) -> PictureHit | None:
    address = _web_text(one.get("img_src"))
    if not address:
        return None
    size = _SIZE.search(_text(one.get("resolution")))
    width, height = (int(size[1]), int(size[2])) if size else (None, None)
    return PictureHit(url=str(one["url"]), title=_text(one.get("title")), image=address, width=width, height=height)


def _text(value: object) -> str:
    return " ".join(value.split())[:2_000] if isinstance(value, str) else ""


def _web_text(value: object) -> str:
    text = _text(value)
    return text if split_web_url(text) is not None else ""
