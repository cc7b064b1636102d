"""What a worker and the processes of its functions tell each other."""

import pickle
import struct
from dataclasses import dataclass
from typing import Any

from receiver.core.deliveries import StoredDelivery
from receiver.worker.failures import Raised

SIZE = struct.Struct("!Q")
"""A message is its size and then its bytes."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The first message to a process: where modules are found."""

    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """To a process: call this function with the event of the delivery, or with a list of the events of all."""

    module: str
    qualname: str
    batched: bool
    sources: tuple[StoredDelivery, ...]


@dataclass(frozen=True, slots=True)
class Begun:
    """From a process: the function is found and called now."""


@dataclass(frozen=True, slots=True)
class Done:
    """From a process: the function has returned, or raised."""

    raised: Raised | None


def write_message(message: Paths | FunctionCall | Begun | Done) -> bytes:
    """Return a message as it is sent."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(content)) + content


def read_message(content: bytes) -> Any:
    """Return the message that these bytes behind its size are."""
    return pickle.loads(content)  # noqa: S301 - both ends are ours
