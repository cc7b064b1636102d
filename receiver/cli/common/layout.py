"""How the columns of a table share the width of a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.cli.common.columns import Column, cells

GAP = 2
"""Blanks between two columns."""
NARROW = 60
"""A narrower terminal shows a record for each row, and no table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths of the columns that have room, by title, and the columns that have none."""

    widths: Mapping[str, int]
    folded: Sequence[Column[Any]]
    """Their values are written below their rows."""
    left_out: Sequence[Column[Any]]


def arranged(columns: Sequence[Column[Any]], widest: Mapping[str, int], room: int) -> Layout | None:
    """Return the layout for this room, None if the columns of rank 0 do not fit.

    `widest` has the width of the widest cell of each column, 0 for one without a value. No column gets more than
    its cells and title need.
    """
    full = {one.title: max(cells(one.title), widest[one.title]) for one in columns}
    least = {one.title: min(full[one.title], max(one.width, cells(one.title))) for one in columns}
    most = {one.title: min(full[one.title], max(one.most, least[one.title])) for one in columns}
    widths = {one.title: least[one.title] for one in columns if one.rank == 0}
    left = room + GAP - sum(width + GAP for width in widths.values())
    if room < NARROW or left < 0:
        return None
    left = _widened(widths, most, left)
    for one in sorted(columns, key=lambda one: (widest[one.title] == 0, one.rank)):
        if one.rank and left >= least[one.title] + GAP:
            widths[one.title] = least[one.title]
            left -= least[one.title] + GAP
    _widened(widths, full, left)
    without = [one for one in columns if one.title not in widths and widest[one.title]]
    return Layout(widths, [one for one in without if one.below], [one for one in without if not one.below])


def _widened(widths: dict[str, int], aims: Mapping[str, int], left: int) -> int:
    """Widen the columns in their order, each up to its aim; return the room that is left."""
    for title, width in widths.items():
        more = max(0, min(left, aims[title] - width))
        widths[title] += more
        left -= more
    return left
