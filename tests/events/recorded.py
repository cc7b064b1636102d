"""Recorded payloads, and odd ones."""

from pathlib import Path
from typing import TypeVar

import receiver
from receiver.events import Event, parse_event

SAMPLES = Path(receiver.__file__).parent / "service" / "samples"
VECTORS = Path(__file__).parents[1] / "vectors" / "events"


E = TypeVar("E", bound=Event)


def read(path: Path, event_class: type[E]) -> E:
    event = parse_event(path.read_bytes())
    assert type(event) is event_class
    return event


def sample(name: str, event_class: type[E]) -> E:
    return read(SAMPLES / f"{name}.json", event_class)


def vector(name: str, event_class: type[E]) -> E:
    return read(VECTORS / f"{name}.json", event_class)
