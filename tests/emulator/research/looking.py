"""A small shop for extractions and agents, and a service that knows it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.emulator.answering import HOOK, ORIGIN, CheckedService, Json, checked_service, page

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
LAMP = {"type": "object", "properties": {"name": TEXT, "price": NUMBER}}
COMPANY = {
    "type": "object",
    "properties": {"phone": TEXT, "founded": {"type": "integer"}, "head_office": TEXT},
}
UNKNOWN = "019f2c10-0000-7000-8000-000000000001"


def product(name: str, price: int) -> str:
    """Return the page of a product."""
    data = f'{{"@type": "Product", "name": "{name}", "offers": {{"price": {price}}}}}'
    head = f'<title>{name}</title><script type="application/ld+json">{data}</script>'
    return page(f"{name} for {price} euros.", head=head)


PAGES: dict[str, str | bytes] = {
    "/shop/oak": product("Oak", 40),
    "/shop/elm": product("Elm", 30),
    "/shop": page("All lamps", "/shop/oak", "/shop/elm", head="<title>Shop</title>"),
    "/start": page("Welcome", "/contact", "/history", "/legal", head="<title>Start</title>"),
    "/contact": page("Phone: +49 30 1234567", "/offices", head="<title>Contact</title>"),
    "/history": page("Founded: 1999", head="<title>History</title>"),
    "/offices": page("Head office: Berlin", head="<title>Offices</title>"),
    "/legal": page("Nothing of interest", head="<title>Legal</title>"),
}


@asynccontextmanager
async def research(**options: Any) -> AsyncIterator[CheckedService]:
    """Run an emulator whose site has the shop, too."""
    async with checked_service(**options) as service:
        service.pages |= PAGES
        yield service


async def started(service: CheckedService, path: str, **body: Any) -> str:
    """Start a job with a webhook, and return the path of its status."""
    answer = await service.ask("POST", path, {"webhook": HOOK, **body})
    return f"{path}/{answer['id']}"


async def done(service: CheckedService, path: str, **body: Any) -> Json:
    """Start a job, and return its status when it has ended."""
    job = await started(service, path, **body)
    await service.clock.settle()
    return dict(await service.ask("GET", job))


def urls(*names: str) -> list[str]:
    """Return URLs of pages of the site."""
    return [f"{ORIGIN}/{name}" for name in names]
