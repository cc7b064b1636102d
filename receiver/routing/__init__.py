"""Routers: the handlers, the events that they want, their options, and the errors at registration."""

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
