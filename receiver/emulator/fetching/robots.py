"""The rules of a site's robots.txt (RFC 9309)."""

from collections.abc import Iterator, Sequence, Set
from datetime import timedelta
from urllib.parse import urlunsplit

from protego import Protego

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.web_urls import origin_of, split_web_url, without_credentials

SERVICE_AGENTS = ("FireCrawlAgent", "FirecrawlAgent")
ROBOTS_TIMEOUT = timedelta(seconds=8)
MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a file that are read: RFC 9309, section 2.5, asks for that."""
_MAX_RULES = 10_000
_MAX_RULE_LENGTH = 2_000
_MAX_SITEMAPS = 100
_AGENT_FIELDS = frozenset({"user-agent", "useragent", "user agent"})
_RULE_FIELDS = frozenset({"allow", "disallow"})


class RobotsRules:
    """The rules of one robots.txt for some agents. Without a text everything is allowed."""

    def __init__(self, text: str = "", agents: Sequence[str] = SERVICE_AGENTS) -> None:
        self._agents = sorted({_token(agent) for agent in agents})
        self._rules = Protego.parse("\n".join(_relevant_lines(text, {*self._agents, "*"})))
        self.sitemaps: tuple[str, ...] = tuple(self._rules.sitemaps)
        """The URLs of its `Sitemap:` lines as they are."""

    def allows(self, url: str) -> bool:
        """Return whether the agents may fetch a URL. Rules for a folder `/x/` hold for `/x` too."""
        parts = split_web_url(without_credentials(url))
        if parts is None:
            return True
        both = {urlunsplit(parts), urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/", query=""))}
        return all(self._rules.can_fetch(one, agent) for one in both for agent in self._agents)


async def fetch_robots(fetcher: Fetcher, url: str, agents: Sequence[str] = SERVICE_AGENTS) -> RobotsRules:
    """Return the rules of a URL's site. Without a robots.txt, or with an error, everything is allowed."""
    parts = split_web_url(url)
    if parts is None:
        return ALLOW_ALL
    try:
        page = await fetcher.fetch_file(
            f"{origin_of(parts)}/robots.txt", timeout=ROBOTS_TIMEOUT, max_bytes=MAX_ROBOTS_BYTES, cut=True
        )
    except ScrapeFailed:
        return ALLOW_ALL
    if not 200 <= page.status < 300:
        return ALLOW_ALL
    return RobotsRules(page.body.decode("utf-8-sig", "replace"), agents)


def _token(agent: str) -> str:
    """Return the product token of an agent: RFC 9309, section 2.2.1."""
    return agent.partition("/")[0].strip().lower()


def _relevant_lines(text: str, tokens: Set[str]) -> Iterator[str]:
    """Yield the lines of the groups for these agents, and the sitemaps.

    The parser keeps every rule once for each agent of its group, and a hostile file has thousands of both.
    """
    is_relevant = follows_agent = False
    rules = sitemaps = 0
    for field, value in _fields(text):
        if field in _AGENT_FIELDS:
            token = _token(value)
            is_relevant = token in tokens or (is_relevant and follows_agent)
            follows_agent = True
            if token in tokens and rules < _MAX_RULES:
                yield f"user-agent: {token}"
        elif field == "sitemap" and sitemaps < _MAX_SITEMAPS:
            sitemaps += 1
            yield f"sitemap: {value}"
        elif field in _RULE_FIELDS:
            follows_agent = False
            if is_relevant and rules < _MAX_RULES:
                rules += 1
                # An empty rule also ends the list of agents.
                yield f"{field}: {value}" if len(value) <= _MAX_RULE_LENGTH else "disallow:"


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        field, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield field.strip().lower(), value.strip()


ALLOW_ALL = RobotsRules()
