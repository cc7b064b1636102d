"""From stored deliveries to handlers: routing, running, settling."""

from receiver.dispatch.dispatcher import Dispatcher

__all__ = ["Dispatcher"]
