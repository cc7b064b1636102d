"""Tables in a PDF, told by where texts stand: rows of short texts that begin or end one below the other.

A PDF has no tables, only texts at places. What is not plainly a table stays lines: cells of several lines, cells
over several columns, columns of prose, and rows that a program has written as one text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FEWEST_ROWS = 3
_MOST_COLUMNS = 20
_LONGEST_CELL = 80
_LETTER = 0.5
"""How wide a letter is, as a part of its size. Nobody knows it exactly without the font."""
_GAP = 0.7
"""How far apart two cells are at least, as a part of the size; words of a sentence are nearer."""
_MARK = re.compile(
    r"[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u2043\uf0b7].*|[*-]|\(?(\d{1,3}|[a-z]|[ivx]{1,5})[.)]"
)
_NUMBER = re.compile(r"[^\w\s]{0,2}\s?\d[\d.,:'\s/%-]{0,14}[^\d\s]{0,3}")
_SAME_PLACE = 1.5
"""How many points apart two texts are at most that begin one below the other."""
_LEADER = re.compile(r"[.\s\u2026\u00b7_-]+")


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A piece of text, with where it begins on the page."""

    text: str
    """As it was read; it may begin or end with blanks."""
    size: float
    """The size of its letters, before the page is scaled; 0 if nobody knows."""
    x: float
    """From the left, in points."""
    y: float
    """From the bottom, in points."""
    scale: float = 1.0
    """How the page is scaled at its place."""

    @property
    def height(self) -> float:
        """The size of its letters, in points."""
        return self.size * self.scale

    @property
    def end(self) -> float:
        """About where it ends."""
        return self.x + len(self.text.strip()) * self.height * _LETTER


@dataclass(frozen=True, slots=True)
class FoundTable:
    """Pieces of text that are a table."""

    first: int
    """The place of its first piece in the page's pieces."""
    after: int
    """The place after its last piece."""
    rows: tuple[tuple[str, ...], ...]
    """Its cells, as many in each row; an empty one has no text."""


@dataclass(slots=True)
class _Cell:
    text: str
    """Without blanks around it."""
    x: float
    """Where it begins."""
    end: float
    """About where it ends."""


@dataclass(slots=True)
class _Row:
    first: int
    """The place of its first piece."""
    after: int
    """The place after its last piece."""
    cells: list[_Cell]
    """From left to right."""


def tables_in(pieces: Sequence[PlacedText]) -> list[FoundTable]:
    """Return the tables among the pieces of a page, in their order."""
    found: list[FoundTable] = []
    run: list[_Row] = []
    widest: _Row | None = None
    for row in [*_rows(pieces), None]:
        is_row = row is not None and _can_be_row(row)
        if row is not None and is_row and (widest is None or _fits(row, widest)):
            run.append(row)
            widest = row if widest is None or len(row.cells) > len(widest.cells) else widest
            continue
        if widest is not None and (table := _table(run, widest)) is not None:
            found.append(table)
        run, widest = ([row], row) if row is not None and is_row else ([], None)
    return found


def _rows(pieces: Sequence[PlacedText]) -> list[_Row]:
    """Return the rows of pieces that follow one another at one height, each further right."""
    rows: list[_Row] = []
    last: PlacedText | None = None
    for place, piece in enumerate(pieces):
        text = piece.text.strip()
        if not text:
            if rows:
                rows[-1].after = place + 1
            continue
        goes_on = last is not None and abs(piece.y - last.y) <= 0.2 * piece.height and piece.x > last.x
        if not goes_on or last is None:
            rows.append(_Row(place, place + 1, [_Cell(text, piece.x, piece.end)]))
        elif piece.x - last.end < _GAP * piece.height:
            cell = rows[-1].cells[-1]
            blank = " " if piece.text[:1].isspace() or last.text[-1:].isspace() else ""
            if len(cell.text) <= _LONGEST_CELL:  # a longer text is in no table
                cell.text = f"{cell.text}{blank}{text}"
            cell.end, rows[-1].after = piece.end, place + 1
        else:
            rows[-1].cells.append(_Cell(text, piece.x, piece.end))
            rows[-1].after = place + 1
        last = piece
    return rows


def _can_be_row(row: _Row) -> bool:
    texts = [cell.text for cell in row.cells]
    return (
        2 <= len(texts) <= _MOST_COLUMNS
        and not any("\n" in text or len(text) > _LONGEST_CELL or _LEADER.fullmatch(text) for text in texts[1:])
        and not ("\n" in texts[0] or len(texts[0]) > _LONGEST_CELL or _MARK.fullmatch(texts[0]))
    )


def _fits(row: _Row, widest: _Row) -> bool:
    """Tell whether each cell of the one row stands below one cell of the other, which is the widest so far."""
    few, many = sorted((row, widest), key=lambda one: len(one.cells))
    return _places(few, many) is not None


def _places(row: _Row, columns: _Row) -> list[int] | None:
    """Return the column of each cell; None if a cell has none, or two cells have the same."""
    if len(row.cells) == len(columns.cells):
        return list(range(len(row.cells)))  # the words of a heading need not stand above what they name
    found: list[int] = []
    for cell in row.cells:
        overlaps = [min(cell.end, one.end) - max(cell.x, one.x) for one in columns.cells]
        best = max(range(len(overlaps)), key=lambda at: overlaps[at])
        if overlaps[best] <= 0 or (found and best <= found[-1]):
            return None
        found.append(best)
    return found


def _table(run: Sequence[_Row], widest: _Row) -> FoundTable | None:
    if len(run) < _FEWEST_ROWS:
        return None
    columns: list[dict[int, _Cell]] = [{} for _ in widest.cells]
    for number, row in enumerate(run):
        places = _places(row, widest)
        if places is None:
            return None
        for place, cell in zip(places, row.cells, strict=True):
            columns[place][number] = cell
    if not all(map(_is_column, columns)):
        return None
    rows = [tuple(column[at].text if at in column else "" for column in columns) for at in range(len(run))]
    if sum(1 for row in rows if all(row)) * 2 < len(rows):
        return None  # most rows have holes: these are texts that stand below one another by chance
    return FoundTable(run[0].first, run[-1].after, tuple(rows))


def _is_column(cells: dict[int, _Cell]) -> bool:
    """Tell whether the cells below the first row begin at one place, or are numbers, which may end at one."""
    below = [cell for number, cell in cells.items() if number > 0]
    if not below:
        return False
    places = [cell.x for cell in below]
    return max(places) - min(places) <= _SAME_PLACE or all(_NUMBER.fullmatch(cell.text) for cell in below)
