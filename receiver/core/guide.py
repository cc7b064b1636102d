"""The guide that ships with the package: its topics, and the texts in it that are made from the code."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

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
    summary: str
    """One sentence."""


@dataclass(frozen=True, slots=True)
class TopicLink:
    """A link from one topic to another, or to a heading of another."""

    topic: str
    anchor: str
    """`anchor_of` its heading; empty for the beginning."""


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

    A line of the file that ends with `<!-- made by MODULE:FUNCTION -->` stands for what this function returns: no
    table of settings can differ from the settings. Where the file is shown unchanged, the rest of the line says how
    to read that part. The functions import much: an event loop calls this in a thread.
    """
    return _MADE.sub(lambda found: str(getattr(importlib.import_module(found[1]), found[2])()), _source(name))


def _source(name: str) -> str:
    return (resources.files("receiver") / "guide" / f"{name}.md").read_text(encoding="utf-8")


def topic_link(target: str) -> TopicLink | None:
    """Return where a link within the guide leads; None for any other link."""
    found = _TOPIC_LINK.fullmatch(target)
    return TopicLink(found[1], found[2] or "") if found and found[1] in TOPICS else None


def field_texts(declared: type) -> dict[str, str]:
    """Return the text below each field that a class and its bases declare, those of bases first, each on one line.

    A field of a subclass replaces one of the same name.
    """
    texts: dict[str, str] = {}
    # A TypedDict is a subclass of `dict` alone, whatever its written bases are.
    for base in getattr(declared, "__orig_bases__", declared.__bases__):
        if isinstance(base, type) and base.__module__.startswith("receiver."):
            texts |= field_texts(base)
    return texts | dict(_own_field_texts(declared))


def _own_field_texts(declared: type) -> Iterator[tuple[str, str]]:
    tree = next(one for one in ast.parse(inspect.getsource(declared)).body if isinstance(one, ast.ClassDef))
    for field, text in pairwise(tree.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, re.sub(r"\s+", " ", words)
