"""Spreadsheets and CSV as tables."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from html import escape
from io import BytesIO, StringIO
from itertools import islice
from typing import Any

from openpyxl import load_workbook

from receiver.emulator.content.documents import markup
from receiver.emulator.content.documents.markup import Archive, DocumentText

MOST_ROWS = 20_000
MOST_COLUMNS = 500
MOST_SHEETS = 100
_LONGEST_FIELD = 1_000_000


def read_xlsx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return each sheet of an .xlsx file as a table; formulas by the values that were saved with them."""
    archive = Archive(body)
    archive.check_xml()
    found = DocumentText(title=markup.title_in(archive.read_if_there("docProps/core.xml")))
    workbook = load_workbook(BytesIO(body), read_only=True, data_only=True, keep_links=False)
    parts = []
    for sheet in workbook.worksheets[:MOST_SHEETS]:
        if sheet.max_row is not None and sheet.max_row > MOST_ROWS:
            found.warnings.append(f"Only the first {MOST_ROWS:,} rows of a sheet were taken.")
        rows = sheet.iter_rows(max_row=MOST_ROWS, max_col=MOST_COLUMNS, values_only=True)
        parts.append(f"<h2>{escape(sheet.title)}</h2>\n{markup.table(_trimmed(map(_texts, rows)))}")
    found.html = markup.page(found.title, *parts)
    return found


def read_csv(body: bytes, options: dict[str, Any]) -> DocumentText:
    """Return a CSV file as a table. Its delimiter is the most frequent one of the first line."""
    text = body.decode(options.get("codec", "utf-8"), "replace").removeprefix("\ufeff").replace("\0", "")
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    csv.field_size_limit(_LONGEST_FIELD)
    rows = islice(csv.reader(StringIO(text, newline=""), delimiter=delimiter), MOST_ROWS)
    found = DocumentText(html=markup.page("", markup.table(_trimmed(row[:MOST_COLUMNS] for row in rows))))
    if text.count("\n") > MOST_ROWS:
        found.warnings.append(f"Only the first {MOST_ROWS:,} rows were taken.")
    return found


def _texts(row: Iterable[object]) -> list[str]:
    return [_text(value) for value in row]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time().isoformat() != "00:00:00" else value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _trimmed(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """Give the rows that are not empty, all as wide as the widest of them."""
    kept = []
    width = 0
    for row in rows:
        used = len(row)
        while used and not row[used - 1]:
            used -= 1
        if used:
            kept.append(list(row[:used]))
            width = max(width, used)
    for one in kept:
        yield one + [""] * (width - len(one))
