"""The guide that ships with the package: Markdown files in `receiver/guide/`, a file for each topic."""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

TOPICS = (
    "start",
    "handlers",
    "retries",
    "order",
    "schedules",
    "testing",
    "replay",
    "emulator",
    "client",
    "deploying",
    "postgres",
    "operating",
    "console",
    "alerts",
    "traces",
    "runbook",
    "outages",
    "security",
    "quirks",
    "design",
    "logs",
    "reference",
    "commands",
)
"""The names of all topics, in the order in which to read them."""
_MADE = re.compile(r"^.*<!-- made by ([\w.]+):(\w+) -->$", re.MULTILINE)
_TOPIC_LINK = re.compile(r"([a-z]+)\.md(?:#([\w-]+))?")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the guide."""

    name: str
    """What one types to read it."""
    title: str
    """Its heading."""
    summary: str
    """What it is about, in one sentence."""


@dataclass(frozen=True, slots=True)
class TopicLink:
    """A link from one topic to another, or to a heading of another."""

    topic: str
    """The name of the topic."""
    anchor: str
    """What `anchor_of` returns for the heading; empty for the beginning."""


def topics() -> Sequence[Topic]:
    """Return all topics, in the order in which to read them."""
    return [_topic(name) for name in TOPICS]


@cache
def _topic(name: str) -> Topic:
    title, _, summary, *_ = _source(name).split("\n", 3)
    return Topic(name, title.removeprefix("# "), summary)


@cache
def read_topic(name: str) -> str:
    """Return the Markdown of a topic of TOPICS, with the parts that are made from the code.

    A line of the file that ends with `<!-- made by MODULE:FUNCTION -->` stands for what this function returns. So
    no table of settings can differ from the settings. Where the file is shown as it is, the rest of the line says
    how to read that part. The functions import much: call this in a thread where others wait.
    """
    return _MADE.sub(lambda found: _made(found[1], found[2]), _source(name))


def _source(name: str) -> str:
    return (resources.files("receiver") / "guide" / f"{name}.md").read_text(encoding="utf-8")


def _made(module: str, function: str) -> str:
    made: str = getattr(importlib.import_module(module), function)()
    return made


def topic_link(target: str) -> TopicLink | None:
    """Return where a link of the guide leads; None for a link to elsewhere."""
    found = _TOPIC_LINK.fullmatch(target)
    return TopicLink(found[1], found[2] or "") if found and found[1] in TOPICS else None
