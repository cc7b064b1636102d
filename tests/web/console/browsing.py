"""A browser without pictures: it keeps cookies, and sends forms with the token that their page had."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

import httpx

BASE = "http://127.0.0.1:8001"
PAGES = (
    "/",
    "/deliveries",
    "/jobs",
    "/dead",
    "/work-items",
    "/handlers",
    "/quarantine",
    "/monitors",
    "/drift",
    "/simulator",
    "/settings",
)
"""The pages that the head of each page names."""
_TOKEN = re.compile(r'name="token" value="([0-9a-f]+)"')


class Browser:
    """Visits the pages of a console."""

    def __init__(self, app: Any, base: str = BASE, client: str = "10.0.0.7") -> None:
        self.app = app
        transport = httpx.ASGITransport(app, client=(client, 5000))
        self.http = httpx.AsyncClient(transport=transport, base_url=base)

    async def page(self, path: str, status: int = 200, headers: Mapping[str, str] | None = None) -> str:
        """Return the text of a page."""
        answer = await self.http.get(path, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.text

    async def token(self, path: str = "/sign-in") -> str:
        """Return the token of a page's form."""
        found = _TOKEN.search(await self.page(path))
        assert found, path
        return found[1]

    async def send(self, path: str, *, at: str = "/sign-in", **fields: str) -> httpx.Response:
        """Send a form with the token of the page `at`."""
        return await self.http.post(path, data={"token": await self.token(at), **fields})


def links(page: str) -> list[str]:
    """Return the targets of the links of a page."""
    return [unescape(target) for target in re.findall(r'href="([^"]*)"', page)]
