"""Deliveries come in through a Starlette app that has a lifespan of its own; a worker beside it runs the handlers.

Set RECEIVER_SECRETS to the secret of your account first: without it the app does not start. Then run both:

    uvicorn examples.starlette_app:app
    receiver work --handlers examples.own_router:router
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from receiver import Receiver

receiver = Receiver()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, object]]:
    """Open what the app needs around the receiver's own resources."""
    prices = {"gear-tune": "£21"}
    async with receiver.lifespan(app):
        yield {"prices": prices}


async def price(request: Request) -> JSONResponse:
    """A route of the app itself, served by the same process."""
    product = request.path_params["product"]
    return JSONResponse({"product": product, "price": request.state.prices.get(product, "ask us")})


app = Starlette(routes=[Route("/prices/{product}", price), Mount("/hooks", receiver)], lifespan=lifespan)
