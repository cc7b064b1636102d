"""What rules read beside data for programs: dates, bylines, classes, repeated blocks."""

from typing import Any

import pytest

from receiver.emulator.extraction.evidence import phrases
from receiver.emulator.extraction.marks import MAX_FIELDS, MAX_TEXT, MarkReader
from receiver.emulator.extraction.names import iso_date
from receiver.emulator.extraction.reading import parse_page, walk

URL = "https://shop.example/"


@pytest.mark.parametrize(
    ("text", "day_first", "found"),
    [
        ("2026-08-03T09:00:00Z", None, "2026-08-03"),
        ("3. August 2026", None, "2026-08-03"),
        ("14th of September, 2026", None, "2026-09-14"),
        ("March 14, 2026", None, "2026-03-14"),
        ("le 1er février 2026", None, "2026-02-01"),
        ("01.10.2026", None, "2026-10-01"),
        ("05/10/2026", True, "2026-10-05"),
        ("05/10/2026", False, "2026-05-10"),
        ("05/10/2026", None, None),
        ("25/10/2026", None, "2026-10-25"),
        ("10/25/2026", None, "2026-10-25"),
        ("31.02.2026", None, None),
        ("99. August 2026", None, None),
        ("soon", None, None),
        ("Sommer 2026", None, None),
        ("x" * 500 + "2026-01-01", None, None),
    ],
)
def test_dates_are_read_as_people_write_them(text: str, day_first: bool | None, found: str | None) -> None:
    """A date whose day and month could be swapped is none."""
    assert iso_date(text, day_first=day_first) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("By Person Three", {"author": "Person Three"}),
        ("Written by Person O'Seven | News", {"author": "Person O'Seven"}),
        ("Von Person Vier", {"author": "Person Vier"}),
        ("Publié le 12 mars 2026 par Personne Cinq", {"author": "Personne Cinq", "published": "2026-03-12"}),
        ("Updated on March 3, 2026", {"updated": "2026-03-03"}),
        ("By train you need two hours", {}),
        ("The book was read by Many People", {}),
        ("Von hier aus gesehen", {}),
        ("Published soon", {}),
    ],
)
def test_sentences_say_who_and_when(line: str, found: dict[str, str]) -> None:
    assert phrases([line]) == found


def marks_of(html: str) -> MarkReader:
    tree, reader = parse_page(html), MarkReader(URL)
    assert tree is not None
    walk(tree, (reader,))
    return reader


@pytest.mark.parametrize(
    ("html", "fields"),
    [
        ('<p class="price">5 €</p>', {"price": "5 €"}),
        ('<p class="card__price--big">5 €</p>', {"price": "5 €", "card price": "5 €"}),
        ('<p class="price"><del>9 €</del> 5 €</p>', {"price": "5 €"}),
        ('<p class="mt-4 text-lg">5 €</p>', {}),
        ('<p class="sku">SKU: A1</p>', {"SKU": "A1", "sku": "A1"}),
        ("<div><span>Rooms</span><span>5</span></div>", {"Rooms": "5"}),
        ("<div><a href='/x'>Rooms</a><span>5</span></div>", {"url": "https://shop.example/x"}),
        ("<div><span>What is it?</span><span>5</span></div>", {}),
        ('<a href="tel:+491">Call</a>', {"phone": "Call"}),
        ('<a href="mailto:a%40b.example?subject=x">Mail</a>', {"email": "a@b.example"}),
        ("<address>Dock 4</address>", {"address": "Dock 4"}),
        ("<nav><p class='price'>5</p></nav><footer><p class='sku'>5</p></footer>", {}),
        ("<time datetime='2026-01-02'>today</time>", {"date": "2026-01-02"}),
    ],
)
def test_markup_names_values(html: str, fields: dict[str, Any]) -> None:
    assert marks_of(html).fields == fields


def test_blocks_that_repeat_are_rows_and_no_part_of_the_page() -> None:
    card = '<div class="tile"><h3>{}</h3><p class="price">{}</p></div>'
    reader = marks_of(f'<h2>More</h2><section class="related">{card.format("A", 1)}{card.format("B", 2)}</section>')

    assert reader.rows == [
        ("More related tile", [{"title": "A", "price": "1"}, {"title": "B", "price": "2"}]),
    ]
    assert reader.fields == {"title": "More"}


def test_one_block_alone_is_a_part_of_the_page() -> None:
    reader = marks_of('<main><div class="tile"><h3>A</h3><p class="price">1</p></div></main>')

    assert (reader.rows, reader.fields) == ([], {"title": "A", "price": "1"})


def test_what_is_kept_is_bounded() -> None:
    reader = marks_of("".join(f'<p class="x{"a" * n}">{"y" * 1_000}</p>' for n in range(200)))

    assert len(reader.fields) <= MAX_FIELDS
    assert all(len(value) <= MAX_TEXT for value in reader.fields.values())
