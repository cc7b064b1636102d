"""PDF and office files."""

import zipfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from io import BytesIO
from typing import Any

import pytest
from openpyxl import Workbook

from receiver.emulator.content.documents.child import answer_to
from receiver.emulator.content.documents.markup import DocumentText
from receiver.emulator.failures import ScrapeFailed
from tests.emulator.content import files
from tests.emulator.content.pages import plan, read, read_file


def xlsx() -> bytes:
    """Return a spreadsheet with two sheets."""
    book = Workbook()
    first = book.active
    assert first is not None
    first.title = "Prices"
    for row in (
        ["Name", "Price", None],
        ["a|b", 2.0, None],
        [None, None, None],
        [datetime(2026, 8, 21), True, None],
    ):
        first.append(row)
    book.create_sheet("Empty")
    body = BytesIO()
    book.save(body)
    return body.getvalue()


PPTX = files.archive(
    {
        "ppt/slides/slide2.xml": f"<p:sld {files.P} {files.A}><p:sp><a:p><a:t>second</a:t></a:p></p:sp></p:sld>",
        "ppt/slides/slide1.xml": f"<p:sld {files.P} {files.A}>"
        "<p:sp><p:ph type='title'/><a:p><a:t>First</a:t></a:p></p:sp>"
        "<p:sp><a:p><a:r><a:t>one </a:t></a:r><a:r><a:t>line</a:t></a:r></a:p></p:sp>"
        "<a:tbl><a:tr><a:tc><a:p><a:t>h</a:t></a:p></a:tc></a:tr>"
        "<a:tr><a:tc><a:p><a:t>c</a:t></a:p></a:tc></a:tr></a:tbl>"
        "</p:sld>",
        "docProps/core.xml": files.CORE,
    }
)
EPUB = files.archive(
    {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="o/p.opf"/></container>',
        "o/p.opf": '<package xmlns:dc="d"><metadata><dc:title>The title</dc:title></metadata><manifest>'
        '<item id="b" href="t/b%20c.xhtml"/><item id="a" href="a.xhtml"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="b"/><itemref idref="none"/></spine></package>',
        "o/a.xhtml": "<html><head><title>x</title></head><body><h1>One</h1></body></html>",
        "o/t/b c.xhtml": "<html><body class='c'><p>two</p></body></html>",
    }
)
ODT = files.odt(
    '<text:h text:outline-level="2">Head</text:h>'
    '<text:p>a<text:s text:c="3"/>b <text:a xlink:href="/x">l</text:a></text:p>'
    "<text:list><text:list-item><text:p>i</text:p></text:list-item></text:list>"
    "<table:table><table:table-row><table:table-cell><text:p>c</text:p></table:table-cell>"
    '<table:table-cell table:number-columns-repeated="1000"/></table:table-row></table:table>'
)
DOCX = files.docx(files.paragraph("Head", "Heading1") + files.paragraph("a *b*"))


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("a.docx", DOCX, "# Head\n\na \\*b\\*"),
        ("a.rtf", b"{\\rtf1\\ansi One \\b two\\b0\\par Three \\'e9}", "One **two**\n\nThree é"),
        (
            "a.xlsx",
            xlsx(),
            "## Prices\n\n| Name | Price |\n| --- | --- |\n| a\\|b | 2 |\n| 2026-08-21 | TRUE |\n\n## Empty",
        ),
        ("a.csv", b"a;b;c,d\n1;2\n", "| a | b | c,d |\n| --- | --- | --- |\n| 1 | 2 |  |"),
        ("a.pptx", PPTX, "## First\n\none line\n\n| h |\n| --- |\n| c |\n\nsecond"),
        ("a.epub", EPUB, "# One\n\ntwo"),
        ("a.odt", ODT, "## Head\n\na b [l](/x)\n\n- i\n\n| c |\n| --- |"),
        ("a.pdf", files.pdf("One page", "Two pages"), "One page\n\nTwo pages"),
    ],
)
def test_a_file_has_its_markdown(name: str, body: bytes, expected: str) -> None:
    """Read in a process of its own."""
    assert read_file(body, name, "", plan()).markdown == expected


@pytest.mark.parametrize("body", [DOCX, PPTX, EPUB, ODT, files.pdf("a", title="The title")])
def test_a_file_has_a_title(body: bytes) -> None:
    """From its properties. The kind is seen in its bytes."""
    assert read(body, content_type="application/octet-stream").metadata == {"title": "The title"}


def read_pdf(body: bytes, parsers: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return the content of a PDF."""
    chosen = ({"type": "pdf", **(parsers or {})},)
    return read(body, content_type="application/pdf", **{"parsers": chosen, **options})


def test_a_pdf_tells_its_pages_and_links() -> None:
    """`maxPages` limits what is read; the whole number is told as well."""
    page = read_pdf(files.pdf("one", "two", "three", link="https://x.test/a"), {"maxPages": 2, "pageMarkers": True})

    assert (page.num_pages, page.total_pages) == (2, 3)
    assert page.markdown == "one\n\n---\n\n<!-- page 2 -->\n\ntwo"
    assert page.links == ("https://x.test/a",)


def test_a_pdf_can_be_had_as_it_is() -> None:
    """Without a parser the Markdown is the file in base64."""
    assert read(b"%PDF-", content_type="application/pdf", parsers=()).markdown == "JVBERi0="


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (files.pdf("", ""), "SCRAPE_PDF_OCR_REQUIRED"),
        (b"%PDF-1.4 broken", "SCRAPE_ALL_ENGINES_FAILED"),
        (b"", "SCRAPE_ALL_ENGINES_FAILED"),
    ],
)
def test_a_pdf_without_text_fails_in_the_fast_mode(body: bytes, code: str) -> None:
    """With the service's code."""
    with pytest.raises(ScrapeFailed) as failed:
        read_pdf(body, {"mode": "fast"})

    assert failed.value.code == code


@pytest.mark.parametrize("mode", [None, "auto", "ocr"])
def test_a_scanned_pdf_says_that_ocr_is_missing(mode: str | None) -> None:
    """The service reads it; nothing of its text is here, and the answer says why."""
    page = read_pdf(files.pdf("", ""), {} if mode is None else {"mode": mode})

    assert (page.markdown, page.num_pages) == ("", 2)
    assert any("no OCR" in warning for warning in page.warnings)


def test_a_pdf_can_be_had_page_by_page() -> None:
    """With the Markdown of each page, and its paragraphs as blocks."""
    page = read_pdf(files.pdf("one", "two"), {"pages": True, "blocks": True})

    assert page.pages == [{"pageNumber": 1, "markdown": "one"}, {"pageNumber": 2, "markdown": "two"}]
    assert [(one["pageNumber"], [item["content"] for item in one["items"]]) for one in page.blocks] == [
        (1, ["one"]),
        (2, ["two"]),
    ]
    assert any("blocks" in warning for warning in page.warnings)


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


@pytest.mark.parametrize("name", ["old.doc", "old.xls", "old.ppt", "unnamed"])
@pytest.mark.parametrize("content_type", ["application/msword", "application/vnd.ms-excel", ""])
def test_files_of_the_older_office_say_that_they_are_not_read(name: str, content_type: str) -> None:
    """They are no error: the service reads them."""
    content = read_file(OLE, name, content_type, plan())

    assert content.markdown == ""
    assert "older formats of Office" in content.warnings[0]


def test_what_is_only_called_so_is_read() -> None:
    """Many sites call a table of HTML, or a text, a file of Excel or Word."""
    assert read_file(b"<table><tr><th>a</th></tr></table>", "a.xls", "application/vnd.ms-excel", plan()).markdown
    assert read_file(b"{\\rtf1 text}", "a.doc", "application/msword", plan()).markdown == "text"


def test_a_page_without_text_among_others_is_told() -> None:
    """So is a mode that has no effect."""
    page = read_pdf(files.pdf("one", ""), {"mode": "ocr"})

    assert page.markdown == "one"
    assert len(page.warnings) == 2


def test_a_pdf_that_takes_too_long_is_given_up() -> None:
    """The process is killed at the plan's time-out."""
    with pytest.raises(ScrapeFailed) as failed:
        read_pdf(files.pdf("one"), timeout=1)

    assert failed.value.code == "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR"


# ---- hostile files

BOMB = files.claiming(files.archive({"content.xml": "<a/>"}), 2**31)
ENTITIES = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx", "odt", "epub"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: BOMB,
        lambda: files.archive({f"xl/{number}": "" for number in range(5_001)}),
        lambda: b"PK\x03\x04",
        lambda: b"",
        lambda: DOCX[: len(DOCX) // 2],
        lambda: files.archive({"other": ""}),
    ],
    ids=["bomb", "entries", "head", "empty", "half", "other"],
)
def test_a_broken_archive_is_an_error_of_that_page(kind: str, make: Callable[[], bytes]) -> None:
    """Nothing is unpacked beyond the limits."""
    answer = answer_to(kind, make(), {})

    assert answer.get("code") == "SCRAPE_ALL_ENGINES_FAILED" or answer == asdict(DocumentText(html=answer["html"]))


@pytest.mark.parametrize("declaration", [ENTITIES, EXTERNAL])
def test_xml_with_entities_is_refused(declaration: str) -> None:
    """Whatever the kind: they can grow without end, and name other files."""
    bodies = {
        "docx": files.docx("", **{"word/styles.xml": f"{declaration}<a>&a;</a>"}),
        "pptx": files.archive({"ppt/slides/slide1.xml": f"{declaration}<a>&a;</a>"}),
        "odt": files.archive({"content.xml": f"{declaration}<a>&a;</a>"}),
        "epub": files.archive({"META-INF/container.xml": f"{declaration}<a>&a;</a>"}),
        "xlsx": files.archive({"xl/workbook.xml": f"{declaration}<a>&a;</a>"}),
    }
    for kind, body in bodies.items():
        assert "document type" in answer_to(kind, body, {})["text"], kind


def test_xml_that_is_too_deep_is_refused() -> None:
    """The libraries for these files use recursion."""
    assert "too deep" in answer_to("docx", files.docx("<w:p>" * 10_000 + "</w:p>" * 10_000), {})["text"]


def test_an_encrypted_archive_is_refused() -> None:
    """It has a flag on each entry."""
    body = bytearray(files.archive({"content.xml": "<a/>"}, compression=zipfile.ZIP_STORED))
    body[body.index(b"PK\x01\x02") + 8] |= 1

    assert "encrypted" in answer_to("odt", bytes(body), {})["text"]


def test_a_row_at_the_end_of_a_sheet_is_not_reached() -> None:
    """A sheet may say that it has a million rows of 16,384 columns."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.cell(1, 1, "a")
    sheet.cell(1_048_576, 16_384, "z")
    body = BytesIO()
    book.save(body)

    answer = answer_to("xlsx", body.getvalue(), {})

    assert "<th>a</th>" in answer["html"]
    assert answer["warnings"]


LOOPS = {
    "pages": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n"
    b"<< /Type /Pages /Count 2 /Kids [2 0 R 2 0 R] >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF",
    "table": b"%PDF-1.4\nxref\n0 1\n0000000000 65535 f \ntrailer << /Prev 9 /Root 1 0 R >>\nstartxref\n9\n%%EOF",
    "objects": b"%PDF-1.4\n1 0 obj\n1 0 R\nendobj\ntrailer << /Root 1 0 R >>\nstartxref\n0\n%%EOF",
    "bomb": files.pdf("a").replace(b"/Filter /FlateDecode", b"/Filter [/FlateDecode /FlateDecode]"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_pdf_that_refers_to_itself_is_an_error_of_that_page(name: str) -> None:
    """In its pages, its tables or its objects."""
    with pytest.raises(ScrapeFailed):
        read_pdf(LOOPS[name], {"mode": "fast"}, timeout=20_000)
