"""How the long-running commands run: on the fastest event loop there is, with fewer garbage collections."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_THRESHOLDS = (20_000, 50, 100)
"""A request leaves hardly any cycles behind; looking for them every 700 objects, the default, is not worth it."""


def run(main: Coroutine[Any, Any, T], *, fastest: bool = True) -> T:
    """Run a coroutine to its end, if it may be the fastest loop on uvloop where the extra `fast` is installed."""
    gc.collect()
    gc.freeze()  # what is loaded by now lives as long as the process
    gc.set_threshold(*_THRESHOLDS)
    with asyncio.Runner(loop_factory=_fastest_loop() if fastest else None) as runner:
        return runner.run(main)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
