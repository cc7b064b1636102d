"""Tables in PDFs: what becomes a table, and what stays lines."""

from pathlib import Path

import pytest

from receiver.emulator.content.documents.pdf import PlacedText, read_pdf, tables_in

MADE = Path(__file__).parent / "made_pdfs"
PRICES = """| Product | Colour | Price |
| --- | --- | --- |
| City bike | blue | 499.00 |
| Race bike | red and white | 1,299.00 |
| Helmet |  | 39.90 |"""
HOURS = """| Day | From | To |
| --- | --- | --- |
| Monday | 9:00 | 18:00 |
| Saturday | 10:00 | 14:00 |"""


def rows_of(*lines: tuple[tuple[float, str], ...], size: float = 10.0) -> list[tuple[tuple[str, ...], ...]]:
    """Return the tables in lines of texts, each with where it begins."""
    pieces = [
        PlacedText(text, size, x, 700.0 - 20 * number) for number, line in enumerate(lines) for x, text in line
    ]
    return [table.rows for table in tables_in(pieces)]


@pytest.mark.parametrize(("name", "table"), [("ruled", PRICES), ("aligned", PRICES), ("cells", HOURS)])
def test_a_table_of_another_program_is_markdown_and_html(name: str, table: str) -> None:
    """With rules or without, numbers to the right, and an empty cell. What is around it stays."""
    document = read_pdf((MADE / f"{name}.pdf").read_bytes(), {})

    (page,) = document.pages
    assert f"\n\n{table}" in page
    assert document.html.count("<tr>") == table.count("\n")
    if name != "cells":
        assert page.startswith("# Price list\n\nThese prices")
        assert page.endswith(f"{table}\n\nAsk us for other bikes.")


def test_columns_of_prose_stay_lines() -> None:
    (page,) = read_pdf((MADE / "columns.pdf").read_bytes(), {}).pages

    assert "|" not in page


def test_a_heading_may_stand_in_the_middle_and_numbers_at_the_end() -> None:
    """As browsers print tables."""
    heads = ((42.0, "Plan"), (122.0, "Pages"), (188.0, "Price"))
    free = ((13.0, "Free"), (140.0, "500"), (188.0, "0 euros"))
    growth = ((13.0, "Growth"), (116.0, "500,000"), (188.0, "333 euros"))

    assert rows_of(heads, free, growth) == [
        (("Plan", "Pages", "Price"), ("Free", "500", "0 euros"), ("Growth", "500,000", "333 euros"))
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [((10.0, "•"), (30.0, "one")), ((10.0, "•"), (30.0, "two")), ((10.0, "•"), (30.0, "three"))],
        [((10.0, "• a"), (90.0, "one")), ((10.0, "• b"), (90.0, "two")), ((10.0, "• c"), (90.0, "three"))],
        [((10.0, "1."), (40.0, "one")), ((10.0, "2."), (40.0, "two")), ((10.0, "3."), (40.0, "three"))],
        [((10.0, "Start"), (60.0, "......"), (300.0, f"{page}")) for page in (1, 2, 3)],
        [((10.0, "Some"), (80.0, "words")), ((10.0, "that"), (99.0, "stand")), ((10.0, "here"), (88.0, "now"))],
        [((10.0, "two"), (80.0, "rows")), ((10.0, "are"), (80.0, "few"))],
        [((10.0, "A word"), (42.0, " next to"), (80.0, " another"))] * 3,
        [((10.0, "x" * 90), (600.0, "long")) for _ in range(3)],
    ],
)
def test_what_is_not_plainly_a_table_stays_lines(lines: list[tuple[tuple[float, str], ...]]) -> None:
    """Lists, tables of contents, prose, and too little to tell."""
    assert rows_of(*lines) == []


def test_many_pieces_take_little_work() -> None:
    """A page can have as many pieces as it likes: each is compared with one row only."""
    line = tuple((40.0 * number, "cell") for number in range(15))

    (table,) = rows_of(*[line] * 4_000)
    assert len(table) == 4_000
