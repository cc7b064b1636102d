"""Reaches pages: given sites without any network, all others by HTTP; redirects, limits and deadlines for both."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Self

import httpx

from receiver.core.clock import Clock
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.exchange import (
    ACCEPTED_CODINGS,
    BrokenCoding,
    Exchange,
    RawAnswer,
    RawHeaders,
    RawRequest,
    TransportExchange,
    WebExchange,
    carried_headers,
    decoded,
)
from receiver.emulator.fetching.network import (
    CheckedNetwork,
    NetworkZone,
    Resolve,
    SystemResolver,
    allowed_zones,
    is_address,
    is_local_name,
    zone_of,
)
from receiver.emulator.fetching.refusals import site_error, timed_out, too_large
from receiver.emulator.fetching.sites import GivenSites, SiteAnswer
from receiver.emulator.fetching.web_urls import DEFAULT_PORTS, joined, request_url, without_credentials
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import FetchedPage, ScrapePlan

_LANGUAGES = {
    "AE": "ar", "AR": "es", "AT": "de", "AU": "en", "BD": "bn", "BE": "nl", "BG": "bg", "BR": "pt", "CA": "en",
    "CH": "de", "CL": "es", "CN": "zh", "CO": "es", "CY": "el", "CZ": "cs", "DE": "de", "DK": "da", "DZ": "ar",
    "EC": "es", "EE": "et", "EG": "ar", "ES": "es", "FI": "fi", "FR": "fr", "GB": "en", "GE": "ka", "GR": "el",
    "HK": "zh", "HR": "hr", "HU": "hu", "ID": "id", "IE": "en", "IL": "he", "IN": "en", "IQ": "ar", "IR": "fa",
    "IS": "is", "IT": "it", "JP": "ja", "KE": "sw", "KR": "ko", "KZ": "kk", "LT": "lt", "LU": "lb", "LV": "lv",
    "MA": "ar", "MX": "es", "MY": "ms", "NG": "en", "NL": "nl", "NO": "nb", "NZ": "en", "PE": "es", "PH": "en",
    "PK": "ur", "PL": "pl", "PT": "pt", "QA": "ar", "RO": "ro", "RS": "sr", "RU": "ru", "SA": "ar", "SE": "sv",
    "SG": "en", "SI": "sl", "SK": "sk", "TH": "th", "TN": "ar", "TR": "tr", "TW": "zh", "UA": "uk", "US": "en",
    "UY": "es", "VE": "es", "VN": "vi", "ZA": "en",
}  # fmt: skip
"""The ISO 639-1 language of most sites of an ISO 3166-1 country."""
_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*|\*")
"""RFC 4647, section 2.1."""
_MAX_LANGUAGES = 10


def accept_language(country: str, languages: tuple[str, ...] = ()) -> str:
    """Return the value of Accept-Language: the languages in order, or else the country's, without invalid tags."""
    own = _LANGUAGES.get(country.upper())
    wanted = languages or ((f"{own}-{country.upper()}", own) if own else ())
    tags = [tag for tag in wanted if _TAG.fullmatch(tag)][:_MAX_LANGUAGES]
    return ",".join(tag if place == 0 else f"{tag};q={1 - place / 10:.1f}" for place, tag in enumerate(tags))


MAX_REDIRECTS = 20
"""As in the Fetch standard (https://fetch.spec.whatwg.org/#http-redirect-fetch)."""
USER_AGENT = "Mozilla/5.0 (compatible; FirecrawlAgent; receiver emulate)"
MOBILE_USER_AGENT = "Mozilla/5.0 (Linux; Android 14; Mobile) (compatible; FirecrawlAgent; receiver emulate)"
_SECRET_HEADERS = frozenset({b"authorization", b"cookie", b"proxy-authorization"})
_FRAMING = frozenset({b"content-encoding", b"content-length", b"transfer-encoding", b"connection", b"keep-alive"})
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@dataclass(slots=True, kw_only=True)
class _Fetch:
    source_url: str
    """As asked for, without credentials."""
    url: httpx.URL
    headers: RawHeaders = field(repr=False)
    """Without those that frame the request."""
    max_bytes: int
    zones: frozenset[NetworkZone]
    cut: bool = False
    verify: bool = True
    delay: timedelta = timedelta(0)
    """Real time, for a page of a given site."""
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies, repr=False)

    def move(self, location: str) -> None:
        """Follow a redirect. Another origin gets no secret of the caller."""
        made = request_url(joined(str(self.url), location))
        if made is None:
            raise site_error(str(self.url), "ERR_INVALID_REDIRECT", "It leads to something else than a web page.")
        if (made.scheme, made.host, made.port) != (self.url.scheme, self.url.host, self.url.port):
            self.headers = [pair for pair in self.headers if pair[0].lower() not in _SECRET_HEADERS]
        self.url = made


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserRequest:
    """One request that a browser wants to send."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Without those that frame the request."""
    content: bytes = field(default=b"", repr=False)
    zones: frozenset[NetworkZone] | None = None
    """The most networks that it may reach, within those of the options; None for all of these."""
    verify: bool = True
    is_page: bool = False
    """It loads a page, and not a part of one."""


@dataclass(frozen=True, slots=True)
class SingleAnswer:
    """The answer of one server, without its content coding. A redirect has no body."""

    status: int
    headers: list[tuple[str, str]] = field(repr=False)
    """Without those that frame the body."""
    body: bytes = field(repr=False)
    zone: NetworkZone | None = None
    """Of the server; None for a given site."""

    def header(self, name: str) -> str:
        """Return the first header of that name (in lower case), empty without one."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class Fetcher:
    """Fetches pages and files. Its block opens and closes its connections.

    Pages of given sites come from their files. For others, only addresses that the options allow are connected to,
    also after a redirect; a page on the internet cannot redirect to a private network or to this machine. Every
    failure is a ScrapeFailed. Credentials in URLs are neither sent nor shown. A `transport` replaces the network
    and decides what it reaches.
    """

    def __init__(
        self,
        options: EmulatorOptions,
        clock: Clock,
        *,
        sites: GivenSites | None = None,
        resolve: Resolve | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.sites = sites or GivenSites(options)
        self._options = options
        self._clock = clock
        self._zones = allowed_zones(options)
        self._resolve = resolve
        self._transport = transport
        self._network: CheckedNetwork | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._web = await self._open_exchange()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def fetch(self, plan: ScrapePlan) -> FetchedPage:
        """Return the page of a plan, whatever its HTTP status, within the plan's time-out in real time."""
        wanted = {
            "User-Agent": MOBILE_USER_AGENT if plan.mobile else USER_AGENT,
            "Accept": _ACCEPT,
            "Accept-Language": accept_language(plan.country, plan.languages),
        }
        return await self._within(
            timedelta(milliseconds=plan.timeout),
            _Fetch(
                source_url=without_credentials(plan.url),
                url=_start_url(plan.url),
                headers=_headers(wanted, plan.headers),
                max_bytes=self._options.max_page_bytes,
                zones=frozenset(zone for zone in self._zones if zone <= plan.nearest),
                verify=not plan.skip_tls_verification,
                delay=self._options.page_delay,
            ),
        )

    async def fetch_file(
        self,
        url: str,
        *,
        timeout: timedelta,
        max_bytes: int,
        cut: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> FetchedPage:
        """Return a file of a site such as its robots.txt. With `cut` a larger one is cut after `max_bytes`."""
        return await self._within(
            timeout,
            _Fetch(
                source_url=without_credentials(url),
                url=_start_url(url),
                headers=_headers({"User-Agent": USER_AGENT, "Accept": "*/*"}, headers or {}),
                max_bytes=max_bytes,
                zones=self._zones,
                cut=cut,
            ),
        )

    def refuses(self, url: str) -> bool:
        """Return whether nothing is fetched from this address. Its name is not resolved."""
        made = request_url(url)
        if made is None:
            return True
        if self._transport is not None or self.sites.has(made):
            return False
        host = made.host.removesuffix(".").lower()
        if is_address(host):
            return zone_of(host) not in self._zones
        is_here = host == "localhost" or host.endswith(".localhost")
        outside = NetworkZone.PRIVATE if is_local_name(host) else NetworkZone.INTERNET
        return not is_here and outside not in self._zones

    async def send(self, request: BrowserRequest) -> SingleAnswer:
        """Return the answer to one request of a browser, which follows redirects itself. It has no time-out."""
        url = _start_url(request.url)
        given = await asyncio.to_thread(self.sites.answer, url, self._options.max_page_bytes)
        if given is not None:
            if self._options.page_delay and request.is_page and not given.location:
                await asyncio.sleep(self._options.page_delay.total_seconds())
            return _given_answer(given, request.method, self._options.max_page_bytes, str(url))
        raw = RawRequest(
            url=url,
            headers=[*carried_headers(request.headers.items()), (b"Accept-Encoding", ACCEPTED_CODINGS.encode())],
            zones=self._zones if request.zones is None else self._zones & request.zones,
            verify=request.verify,
            max_bytes=self._options.max_page_bytes,
            method=request.method,
            content=request.content,
        )
        answer = await self._web.send(raw)
        body = await self._decoded(answer, str(url), self._options.max_page_bytes, cut=False)
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in answer.headers
            if name.lower() not in _FRAMING
        ]
        return SingleAnswer(answer.status, headers, body, answer.zone)

    async def zone_of_site(self, url: str) -> NetworkZone:
        """Return the zone of a URL's site. Given sites count as the internet."""
        made = request_url(url)
        if made is None or self._network is None or self.sites.has(made):
            return NetworkZone.INTERNET
        return await self._network.zone_of_host(made.host, made.port or DEFAULT_PORTS[made.scheme])

    async def _open_exchange(self) -> Exchange:
        if self._transport is not None:
            return TransportExchange(self._transport)
        resolve = self._resolve
        if resolve is None:
            resolve = system = SystemResolver()
            self._stack.callback(system.close)
        self._network = CheckedNetwork(resolve, self._zones)
        return await self._stack.enter_async_context(WebExchange(resolve))

    async def _within(self, timeout: timedelta, fetch: _Fetch) -> FetchedPage:
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._follow(fetch)
        except TimeoutError:
            raise timed_out(fetch.source_url, timeout.total_seconds()) from None

    async def _follow(self, fetch: _Fetch) -> FetchedPage:
        for _ in range(MAX_REDIRECTS + 1):
            given = await asyncio.to_thread(self.sites.answer, fetch.url, fetch.max_bytes)
            if given is not None:
                if not given.location:
                    return await self._from_site(fetch, given)
                fetch.move(given.location)
                continue
            answer = await self._ask(fetch)
            if not answer.is_redirect:
                body = await self._decoded(answer, str(fetch.url), fetch.max_bytes, cut=fetch.cut)
                return self._page(fetch, answer.status, answer.header(b"content-type"), body[: fetch.max_bytes])
            _keep_cookies(fetch, answer)
            fetch.move(answer.header(b"location"))
        raise site_error(fetch.source_url, "ERR_TOO_MANY_REDIRECTS", f"It has more than {MAX_REDIRECTS} redirects.")

    async def _ask(self, fetch: _Fetch) -> RawAnswer:
        headers = fetch.headers
        if fetch.cookies:
            request = httpx.Request("GET", fetch.url)
            fetch.cookies.set_cookie_header(request)
            if cookie := request.headers.get("cookie"):
                own = [value for name, value in headers if name.lower() == b"cookie"]
                rest = [pair for pair in headers if pair[0].lower() != b"cookie"]
                headers = [*rest, (b"Cookie", b"; ".join([*own, cookie.encode("latin-1", "replace")]))]
        answer = await self._web.send(
            RawRequest(
                url=fetch.url,
                headers=headers,
                zones=fetch.zones,
                verify=fetch.verify,
                max_bytes=fetch.max_bytes,
                cut=fetch.cut,
            )
        )
        if answer.zone is not None:
            # A site on the internet must not decide what is fetched from networks that it cannot reach itself.
            fetch.zones = frozenset(zone for zone in fetch.zones if zone <= answer.zone)
        return answer

    async def _from_site(self, fetch: _Fetch, given: SiteAnswer) -> FetchedPage:
        body = given.body()
        if len(body) > fetch.max_bytes:
            if not fetch.cut:
                raise too_large(str(fetch.url), fetch.max_bytes)
            body = body[: fetch.max_bytes]
        if fetch.delay:
            await asyncio.sleep(fetch.delay.total_seconds())
        return self._page(fetch, given.status, given.content_type, body)

    async def _decoded(self, answer: RawAnswer, url: str, max_bytes: int, *, cut: bool) -> bytes:
        body = answer.body
        codings = [value.strip() for value in answer.header(b"content-encoding").split(",") if value.strip()]
        if body and codings:
            try:
                body = await asyncio.to_thread(decoded, body, codings, max_bytes + 1, cut=cut)
            except BrokenCoding as exc:
                raise site_error(url, "ERR_CONTENT_DECODING_FAILED", f"{exc}.") from exc
            if len(body) > max_bytes and not cut:
                raise too_large(url, max_bytes)
        return body

    def _page(self, fetch: _Fetch, status: int, content_type: str, body: bytes) -> FetchedPage:
        return FetchedPage(
            source_url=fetch.source_url,
            url=str(fetch.url),
            status=status,
            content_type=content_type,
            body=body,
            fetched_at=self._clock.now(),
        )


def _given_answer(given: SiteAnswer, method: str, max_bytes: int, url: str) -> SingleAnswer:
    if method not in ("GET", "HEAD"):
        return SingleAnswer(405, [("Allow", "GET, HEAD")], b"")
    headers = [("Content-Type", given.content_type)]
    if given.location:
        return SingleAnswer(given.status, [*headers, ("Location", given.location)], b"")
    body = given.body()
    if len(body) > max_bytes:
        raise too_large(url, max_bytes)
    return SingleAnswer(given.status, headers, body)


def _keep_cookies(fetch: _Fetch, answer: RawAnswer) -> None:
    """Keep the cookies of a redirect until the end of the fetch: many sites redirect until they see theirs."""
    if any(name.lower() == b"set-cookie" for name, _ in answer.headers):
        fetch.cookies.extract_cookies(
            httpx.Response(answer.status, headers=answer.headers, request=httpx.Request("GET", fetch.url))
        )


def _start_url(url: str) -> httpx.URL:
    made = request_url(url)
    if made is None:
        raise site_error(without_credentials(url)[:200], "ERR_INVALID_URL")
    return made


def _headers(own: Mapping[str, str], callers: Mapping[str, str]) -> RawHeaders:
    """Return the headers to send: those of the caller replace ours."""
    try:
        theirs = carried_headers(callers.items())
    except ValueError as exc:
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", f"The request cannot be sent: {exc}.") from None
    names = {name.lower() for name, _ in theirs}
    ours = [(name, value) for name, value in own.items() if value and name.lower().encode() not in names]
    return [*carried_headers(ours), (b"Accept-Encoding", ACCEPTED_CODINGS.encode()), *theirs]
