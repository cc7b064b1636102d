"""Deliveries come in through a FastAPI app of your own, at /hooks/webhooks; a worker beside it runs the handlers.

Set RECEIVER_SECRETS to the secret of your account first: without it the app does not start. Then run both:

    uvicorn examples.fastapi_app:app
    receiver work --handlers examples.own_router:router
"""

from fastapi import FastAPI

from receiver import Receiver

receiver = Receiver()

# A mounted app has no lifespan of its own, so the outer app runs the receiver's.
app = FastAPI(title="A shop with a receiver", lifespan=receiver.lifespan)
app.mount("/hooks", receiver)


@app.get("/prices/{product}")
async def price(product: str) -> dict[str, str]:
    """A route of the app itself, served by the same process."""
    return {"product": product, "price": "£21"}
