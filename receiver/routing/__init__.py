"""Routers: the handlers, the events that they want, their options, and the errors at registration.

- `router` makes a `handler` of each function, by its `options`, and keeps them.
- `context` and `resources` have what a handler is given beside its event.
- `policies` and `schedules` are plain values that workers follow.
- `loader` imports the router that the settings name.
"""

from receiver.routing.handler import Handler
from receiver.routing.options import DEFAULT_LINGER, DEFAULT_QUIET, DEFAULT_TIMEOUT, HandlerOptions, RunOptions
from receiver.routing.router import Router

__all__ = [
    "DEFAULT_LINGER",
    "DEFAULT_QUIET",
    "DEFAULT_TIMEOUT",
    "Handler",
    "HandlerOptions",
    "Router",
    "RunOptions",
]
