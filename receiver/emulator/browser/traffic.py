"""Every request of a page goes through the emulator: its given sites, its networks, its limits."""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.async_api import Error

from receiver.emulator.browser.devices import Device
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import BrowserRequest, Fetcher, SingleAnswer
from receiver.emulator.fetching.network import NetworkZone
from receiver.emulator.fetching.refusals import site_error

# FOLDED: Which requests of a page are for advertisements or cookie pop-ups: a short list of well-known hosts. //
# The names are those that the makers document for their scripts; lists such as EasyList are far longer, and not
# free.
_AD_NAMES = """\
2mdn.net adform.net adition.com adnxs.com adroll.com adsafeprotected.com adservice.google.com adsrvr.org
advertising.com amazon-adsystem.com bidswitch.net casalemedia.com criteo.com criteo.net doubleclick.net
doubleverify.com googleadservices.com googlesyndication.com googletagservices.com moatads.com openx.net outbrain.com
pubmatic.com rubiconproject.com sharethrough.com smartadserver.com taboola.com teads.tv yieldlab.net
consensu.org consent.cookiebot.com consent.cookiefirst.com consent.trustarc.com consentmanager.net cookie-script.com
cookielaw.org cookiepro.com cmp.osano.com cmp.quantcast.com iubenda.com privacy-center.org privacy-mgmt.com
usercentrics.eu"""
_HOSTS = frozenset(_AD_NAMES.split())
"""Each stands for all hosts below it, too."""


def is_advertisement(url: str) -> bool:
    """Tell whether a part of a page comes from a host that serves advertisements or cookie pop-ups."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    labels = host.rstrip(".").split(".")
    return any(".".join(labels[at:]) in _HOSTS for at in range(max(0, len(labels) - 4), len(labels) - 1))


Json = dict[str, Any]

EVERY_REQUEST: Json = {"patterns": [{"urlPattern": "*"}]}
"""What `Fetch.enable` is asked to pause."""
MAX_REQUESTS = 2_000
"""Requests of one page, with all that it loads."""
MAX_TOTAL = 256 * 1024 * 1024
"""Bytes of one page, with all that it loads."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_IN_PARALLEL = 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_PASSED_ON = frozenset({"set-cookie2", "content-disposition", "report-to", "nel", "alt-svc"})
_NAMES = {
    "SCRAPE_DNS_RESOLUTION_ERROR": "NameNotResolved",
    "SCRAPE_SSL_ERROR": "ConnectionFailed",
    "SCRAPE_TIMEOUT": "TimedOut",
}


class DebugSession(Protocol):
    """Speaks to one page by the debugging protocol."""

    async def send(self, method: str, params: Json | None = None) -> Json:
        """Ask the page for something. Error if it refuses, or is gone."""

    def on(self, event: Any, f: Any) -> None:
        """Call `f` with each event of a name."""


class PageTraffic:
    """Answers the requests of one page. What it does not answer reaches nothing.

    Only http and https are answered, by the rules of the fetcher. Once the page holds a document of a public
    network, its scripts reach nothing of less public ones. The caller's headers go only to the site they are for.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        device: Device,
        *,
        url: str,
        headers: Mapping[str, str],
        verify: bool,
        bounded: bool = True,
        block_ads: bool = True,
    ) -> None:
        """A page that is not `bounded` may load as much as it likes, for as long as it lives.

        With `block_ads`, parts of a page that are known to serve advertisements or cookie pop-ups are refused.
        """
        self.document: SingleAnswer | None = None
        """The last answer for the page itself, not for a part of it."""
        self.document_url = url
        """Where that answer came from."""
        self.failure: ScrapeFailed | None = None
        """Why the page itself could not be loaded."""
        self._fetcher = fetcher
        self._device = device
        self._origin = _origin(url)
        self._headers = dict(headers)
        self._verify = verify
        self._bounded = bounded
        self._block_ads = block_ads
        self._zones: frozenset[NetworkZone] | None = None
        self._chains: dict[str, frozenset[NetworkZone]] = {}
        self._requests = self._bytes = 0
        self._turns = asyncio.Semaphore(_IN_PARALLEL)
        self._tasks: set[asyncio.Task[None]] = set()

    async def attach(self, session: DebugSession) -> None:
        """Answer the requests of a page from now on."""
        tree = await session.send("Page.getFrameTree")
        main_frame = tree["frameTree"]["frame"]["id"]
        session.on("Fetch.requestPaused", lambda event: self.begin_answer(session, event, main_frame))
        await session.send("Fetch.enable", EVERY_REQUEST)

    def begin_answer(self, session: DebugSession, event: Json, main_frame: str) -> None:
        """Begin to answer a request that is paused; `main_frame` is the id of the page's own frame."""
        task = asyncio.ensure_future(self._answer(session, event, main_frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, session: DebugSession, event: Json, main_frame: str) -> None:
        is_page = event.get("resourceType") == "Document" and event.get("frameId") == main_frame
        with suppress(Error):  # the page went away meanwhile
            try:
                async with self._turns:
                    answer = await self._fetch(event, is_page=is_page)
            except ScrapeFailed as exc:
                if is_page:
                    self.failure = exc
                reason = _NAMES.get(exc.code, "BlockedByClient")
                await session.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": reason})
                return
            if is_page and answer.status not in _REDIRECTS:
                self.document, self.document_url, self.failure = answer, event["request"]["url"], None
            await session.send("Fetch.fulfillRequest", _fulfilment(event["requestId"], answer))

    async def _fetch(self, event: Json, *, is_page: bool) -> SingleAnswer:
        request: Json = event["request"]
        url = str(request["url"])
        self._requests += 1
        if urlsplit(url).scheme not in ("http", "https") or request["method"] not in _METHODS:
            raise site_error(url[:200], "ERR_BLOCKED_BY_CLIENT")
        if self._block_ads and not is_page and is_advertisement(url):
            raise site_error(url[:200], "ERR_BLOCKED_BY_CLIENT", "It serves advertisements or cookie pop-ups.")
        if self._bounded and (self._requests > MAX_REQUESTS or self._bytes > MAX_TOTAL):
            raise site_error(url[:200], "ERR_INSUFFICIENT_RESOURCES", "The page loads too much.")
        chain = str(event.get("networkId") or event["requestId"])
        zones = self._chains.get(chain, self._zones)
        answer = await self._fetcher.send(
            BrowserRequest(
                url=url,
                method=request["method"],
                headers=self._sent(request, url, is_page=is_page),
                content=_content(request),
                zones=zones,
                verify=self._verify,
                is_page=is_page,
            )
        )
        self._bytes += len(answer.body)
        self._narrow(event, answer, chain, zones)
        return answer

    def _narrow(self, event: Json, answer: SingleAnswer, chain: str, zones: frozenset[NetworkZone] | None) -> None:
        """Note how public the answer is: neither its redirect nor its scripts reach what is less public."""
        zone = answer.zone
        if zone is None:
            return
        base = frozenset(NetworkZone) if zones is None else zones
        self._chains[chain] = frozenset(one for one in base if one <= zone)
        if event.get("resourceType") == "Document":
            known = frozenset(NetworkZone) if self._zones is None else self._zones
            self._zones = frozenset(one for one in known if one <= zone)

    def _sent(self, request: Json, url: str, *, is_page: bool) -> dict[str, str]:
        headers = {name: value for name, value in request["headers"].items() if not name.startswith(":")}
        own = {"accept-language": self._device.accept_language}
        if is_page:
            own["accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        if _origin(url) == self._origin:
            given = {name.lower(): value for name, value in self._headers.items()}
            if "cookie" in given and (cookie := _header(headers, "cookie")):
                given["cookie"] = f"{given['cookie']}; {cookie}"
            own |= given
        named = {name.lower(): value for name, value in headers.items()}
        return {name: value for name, value in (named | own).items() if value}


def _fulfilment(request_id: str, answer: SingleAnswer) -> Json:
    headers = [(name, value) for name, value in answer.headers if name.lower() not in _NOT_PASSED_ON]
    return {
        "requestId": request_id,
        "responseCode": answer.status if 200 <= answer.status <= 599 else 502,
        "responseHeaders": [{"name": name, "value": _one_line(value)} for name, value in headers],
        "body": base64.b64encode(answer.body).decode(),
    }


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ").replace("\0", "")


def _content(request: Json) -> bytes:
    entries = [base64.b64decode(one.get("bytes", "")) for one in request.get("postDataEntries", ())]
    return b"".join(entries) or str(request.get("postData", "")).encode()


def _header(headers: Mapping[str, str], wanted: str) -> str:
    return next((value for name, value in headers.items() if name.lower() == wanted), "")


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()
