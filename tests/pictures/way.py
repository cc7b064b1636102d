"""The way of a delivery: from the service to a handler, with what is promised at each step."""

from collections.abc import Iterator
from pathlib import Path

from tests.pictures import paper

_WIDTH, _HEIGHT = 910, 330
_TOP, _BOX_WIDTH, _BOX_HEIGHT = 60, 176, 178
_LEFTS = (140, 376, 612)
_ROOMS = (
    (
        "web process",
        ("limit the size", "check the signature", "read the envelope", "append", "await the commit"),
    ),
    ("store", ("deliveries, exact bytes", "work items", "attempts", "quarantine", "")),
    ("worker", ("claim under a lease", "read as an event", "match handlers", "run", "settle in batches")),
)
_MIDDLE = _TOP + _BOX_HEIGHT / 2


def make(folder: Path) -> None:
    """Write `way.svg` into a folder."""
    title = "A delivery is committed before it is acknowledged. Workers claim its work from the store."
    (folder / "way.svg").write_text(paper.frame(_WIDTH, _HEIGHT, title, list(_parts())), encoding="utf-8")


def _parts() -> Iterator[str]:
    for left, (name, steps) in zip(_LEFTS, _ROOMS, strict=True):
        yield paper.box(left, _TOP, _BOX_WIDTH, _BOX_HEIGHT)
        yield paper.text(left + _BOX_WIDTH / 2, _TOP + 26, name, kind="title")
        for number, step in enumerate(steps):
            yield paper.text(left + _BOX_WIDTH / 2, _TOP + 56 + 24 * number, step)
    yield paper.text(75, _MIDDLE - 36, "service", kind="title")
    yield paper.text(75, _MIDDLE + 62, "4 attempts,", kind="small")
    yield paper.text(75, _MIDDLE + 76, "21 minutes", kind="small")
    yield from _arrow(20, _LEFTS[0], _MIDDLE - 8, "POST", above=True)
    yield from _arrow(_LEFTS[0], 20, _MIDDLE + 24, "200 after commit", kind="good")
    yield from _arrow(_LEFTS[0] + _BOX_WIDTH, _LEFTS[1], _MIDDLE - 8, "batch", above=True)
    yield from _arrow(_LEFTS[1], _LEFTS[0] + _BOX_WIDTH, _MIDDLE + 24, "synced", kind="good")
    yield from _arrow(_LEFTS[1] + _BOX_WIDTH, _LEFTS[2], _MIDDLE - 8, "claim", above=True)
    yield from _arrow(_LEFTS[2], _LEFTS[1] + _BOX_WIDTH, _MIDDLE + 24, "result")
    yield from _arrow(_LEFTS[2] + _BOX_WIDTH, _WIDTH - 16, _MIDDLE - 8, "event", above=True)
    yield paper.text(_WIDTH - 58, _MIDDLE + 24, "your", kind="title")
    yield paper.text(_WIDTH - 58, _MIDDLE + 42, "functions", kind="title")
    yield paper.text(_LEFTS[0] + _BOX_WIDTH / 2, 40, "knows no handler", kind="small")
    yield paper.text(_LEFTS[1] + _BOX_WIDTH / 2, 40, "SQLite or PostgreSQL", kind="small")
    yield paper.text(_LEFTS[2] + _BOX_WIDTH / 2, 40, "processes of their own", kind="small")
    yield from _readers()


def _readers() -> Iterator[str]:
    left, right, y = _LEFTS[1] - 118, _LEFTS[1] + _BOX_WIDTH + 118, _HEIGHT - 44
    yield paper.box(left, y - 4, right - left, 34)
    yield paper.text((left + right) / 2, y + 18, "console, commands, metrics, replay, backup")
    x = _LEFTS[1] + _BOX_WIDTH / 2
    yield f'<path class="arrow" d="M{x},{_TOP + _BOX_HEIGHT} V{y - 12}"/>'
    yield f'<polygon class="tip" points="{x - 5},{y - 13} {x + 5},{y - 13} {x},{y - 4}"/>'


def _arrow(start: float, end: float, y: float, words: str, *, kind: str = "", above: bool = False) -> Iterator[str]:
    back = 9 if end > start else -9
    yield f'<path class="arrow {kind}" d="M{start},{y} H{end - back}"/>'
    yield f'<polygon class="tip {kind}" points="{end - back},{y - 5} {end - back},{y + 5} {end},{y}"/>'
    yield paper.text((start + end) / 2, y - 6 if above else y + 15, words, kind="small")
