"""The messages between a worker and the processes that run functions for it."""

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName
from receiver.worker.failures import Raised

SIZE = struct.Struct("!Q")
"""A message is its size and then its bytes."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The first message to a process: the folders in which modules are found."""

    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """To a process: call this function with the event of the delivery, or with a list of events if `batched`.

    `log_fields` name the attempt in its log lines. `trace` is the trace of the call, empty without traces.
    """

    module: str
    qualname: str
    batched: bool
    sources: tuple[StoredDelivery, ...]
    log_fields: Mapping[str, object]
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoutingCall:
    """To a process: ask these handlers of a router whether they want the deliveries, and for the lanes of those.

    `handlers` names the router as the setting does, and `folder` is where it is found. The answers do not come
    back: what matters is whether the process lives on.
    """

    handlers: str
    folder: str
    names: tuple[HandlerName, ...]
    sources: tuple[StoredDelivery, ...]


Call = FunctionCall | RoutingCall


@dataclass(frozen=True, slots=True)
class NumberedCall:
    """To a process: make this call. Every answer to it has its number, which no other call of the process has."""

    number: int
    call: Call


@dataclass(frozen=True, slots=True)
class CallStarted:
    """From a process: the function has been found and is called now."""

    number: int


@dataclass(frozen=True, slots=True)
class CallDone:
    """From a process: the function has returned or raised."""

    number: int
    raised: Raised | None


def write_message(message: Paths | NumberedCall | CallStarted | CallDone) -> bytes:
    """Return the bytes of a message, with its size in front."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(content)) + content


def read_message(content: bytes) -> Any:
    """Return the message in these bytes, which follow its size."""
    return pickle.loads(content)  # noqa: S301 - both ends are ours
