"""Office files as other programs write them, and as hostile ones are: headings, lists, links, tables, limits."""

from collections.abc import Callable

import pytest

from receiver.emulator.content.documents.child import answer_to
from receiver.emulator.failures import ScrapeFailed
from tests.emulator.content import files, office
from tests.emulator.content.pages import plan, read_file

TABLE = "| Name | Price |\n| --- | --- |\n| Lamp | 5 |"
RTF = rb"""{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0 Times;}{\f1\fcharset204 Arial;}}{\colortbl;\red1;}
{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 heading 2;}{\*\cs3 Strong;}}
{\info{\title The lamps}{\author Me}}
{\pard\s1\b Prices\par}{\pard\s2 Of lamps\par}
\pard All are {\b cheap}, {\i\'e9l\'e9gant} and \u8364?5 {\f1\'cb\'e0}\~\u-10179?\u-8704?\par
{\pard{\pntext\'B7\tab}{\*\pn\pnlvlblt{\pntxtb\'B7}}red\par}{\pard{\listtext\'B7\tab}\ilvl1\ls1 dark\par}
{\pard{\listtext 1.\tab}plug in\par}{\pard{\listtext 2.\tab}switch on\par}
\pard {\field{\*\fldinst{HYPERLINK "https://acme.test/price"}}{\fldrslt the list}} {\v hidden}\par
\trowd\cellx1000\cellx2000\pard\intbl Name\cell Price\cell\row\intbl La\par mp\cell 5\cell\row
\pard {\pict\pngblip 89504e47}{\*\unknown gone}{\header gone}{\bin4 \}{}}end\par}"""
FILES: list[tuple[str, Callable[[], bytes], str]] = [
    (
        "a.docx",
        office.word_file,
        "# Lamps of 2026\n\n# Prices\n\nAll are **cheap** and _bright_"
        "\n\n- red\n  - dark\n- green\n\n1. plug in\n2. switch on"
        f"\n\n> A customer said so.\n\n{TABLE}\n\nSee [the list]({office.LINK})",
    ),
    (
        "a.pptx",
        office.slides_file,
        f"## Overview\n\n{TABLE}\n\n**A box**\n\n## Details\n\n- one\n  - inner\n- [the list]({office.LINK})"
        "\n\n> Say this aloud.",
    ),
    (
        "a.odt",
        office.text_file,
        f"# Prices\n\nAll are **cheap**, see [the list]({office.LINK})\n\n1. plug in\n2. switch on\n   - inner"
        "\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    ("a.ods", office.sheet_file, f"## Prices\n\n{TABLE}\n\n## Stock\n\n| Lamp |  | 7 |\n| --- | --- | --- |"),
    (
        "a.rtf",
        lambda: RTF,
        "# Prices\n\n## Of lamps\n\nAll are **cheap**, _élégant_ and €5 Ла \U0001f600\n\n- red\n  - dark"
        "\n\n1. plug in\n2. switch on\n\n[the list](https://acme.test/price)"
        "\n\n| Name | Price |\n| --- | --- |\n| La mp | 5 |\n\nend",
    ),
]


@pytest.mark.parametrize(("name", "make", "expected"), FILES, ids=[name for name, _, _ in FILES])
def test_a_file_of_another_program_keeps_its_structure(name: str, make: Callable[[], bytes], expected: str) -> None:
    module = {"docx": "docx", "pptx": "pptx", "odt": "odf", "ods": "odf"}.get(name.partition(".")[2])
    if module is not None:
        pytest.importorskip(module, reason="it is installed with the extra dev")

    assert read_file(make(), name, "", plan()).markdown == expected


HOSTILE_RTF = (
    b"{\\rtf1" + b"{" * 100_000,
    b"{\\rtf1" + b"}" * 100_000 + b"text",
    b"{\\rtf1 \\u99999999999 \\u-1 \\uc9999999999 \\bin99999999999 x",
    b"{\\rtf1 \\'zz\\'4 \\ \\* \\*\\* {\\*\\bin-5 x}}",
    b"{\\rtf1\\ansicpg99999\\f-1\\fcharset-5\\s-1\\ilvl99999\\outlinelevel-9 x\\par}",
    b"{\\rtf1\\cell\\row\\cell\\row\\intbl\\par\\trowd}",
    b"{\\rtf1{\\field{\\*\\fldinst HYPERLINK}{\\fldrslt a}}{\\fldrslt b}}",
    b"{\\rtf1{\\stylesheet{\\s1 heading 1;}{\\stylesheet{\\stylesheet}}}\\s1 x\\par}",
    b"{\\rtf1" + b"{\\listtext a}" * 20_000,
    b"{\\rtf1" + b"{\\b a}" * 50_000,
)


@pytest.mark.parametrize("body", HOSTILE_RTF, ids=range(len(HOSTILE_RTF)))
def test_hostile_rtf_is_read_as_far_as_it_goes(body: bytes) -> None:
    """Nothing of it is a fault of ours."""
    answer = answer_to("rtf", body, {})

    assert "code" not in answer, answer


def test_a_file_without_the_mark_of_rtf_is_refused() -> None:
    with pytest.raises(ScrapeFailed):
        read_file(b"plain text", "a.rtf", "", plan())


SLIDE = f"<p:sld {files.P} {files.A}>{{}}</p:sld>"
RELATIONS = '<Relationships><Relationship Id="r1" Type="x/notesSlide" Target="{}"/></Relationships>'


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.pptx", files.archive({f"ppt/slides/slide{n}.xml": SLIDE for n in range(5_001)})),
        ("a.pptx", files.claiming(files.archive({"ppt/slides/slide1.xml": SLIDE}), 1 << 31)),
        ("a.pptx", files.archive({"ppt/slides/slide1.xml": SLIDE.format("<a:p>" * 301 + "</a:p>" * 301)})),
        ("a.pptx", files.archive({"ppt/slides/slide1.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"})),
        ("a.odt", files.odt("<text:list>" * 400 + "</text:list>" * 400)),
        ("a.odt", files.odt("<text:p>")),
        ("a.xlsx", files.archive({f"xl/worksheets/sheet{n}.xml": "<a/>" for n in range(50_000)}, compression=0)),
        ("a.docx", files.docx("<w:p>")),
        ("a.epub", files.archive({"META-INF/container.xml": "<container/>"})),
        ("a.docx", files.docx("")[:-40]),
    ],
    ids=range(10),
)
def test_hostile_files_are_refused(name: str, body: bytes) -> None:
    """Too many parts, a zip bomb, deep or endless XML, entities, cut files: with the service's code."""
    with pytest.raises(ScrapeFailed) as failed:
        read_file(body, name, "", plan())

    assert failed.value.code == "SCRAPE_ALL_ENGINES_FAILED"


def test_strange_parts_of_a_presentation_do_not_matter() -> None:
    """Notes that lead to themselves or out of the file, an order of slides that are not there, odd levels."""
    entries = {
        "ppt/presentation.xml": f'<p:p {files.P} xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships"><p:sldId r:id="r9"/><p:sldId r:id="r1"/><p:sldId r:id="r1"/></p:p>',
        "ppt/_rels/presentation.xml.rels": '<R><Relationship Id="r1" Target="/ppt/slides/slide1.xml"/></R>',
        "ppt/slides/slide1.xml": SLIDE.format(
            '<p:sp><a:p><a:pPr lvl="-5"/><a:r><a:t>text</a:t></a:r></a:p></p:sp>'
        ),
        "ppt/slides/_rels/slide1.xml.rels": RELATIONS.format("../../../../etc/passwd"),
    }
    assert read_file(files.archive(entries), "a.pptx", "", plan()).markdown == "text"
    looping = entries | {"ppt/slides/_rels/slide1.xml.rels": RELATIONS.format("slide1.xml")}
    assert read_file(files.archive(looping), "a.pptx", "", plan()).markdown == "text\n\n> text"
    broken = entries | {"ppt/slides/_rels/slide1.xml.rels": RELATIONS.format("a.xml"), "ppt/slides/a.xml": "<a>"}
    assert read_file(files.archive(broken), "a.pptx", "", plan()).markdown == "text"


def test_a_pdf_has_headings_and_items_by_its_letters_and_marks() -> None:
    """Larger letters are headings, which may go over lines; a line that goes on belongs to its item."""

    def line(size: int, y: int, text: str) -> str:
        return f") Tj ET BT /F1 {size} Tf 72 {y} Td ({text}"

    bullet = "\xb7"
    first = files.pdf(
        line(24, 760, "The lamps")
        + line(24, 730, "of 2026")
        + line(12, 700, "All of them are cheap, and most of them are bright.")
        + line(12, 680, f"{bullet} red lamps with a")
        + line(12, 660, "long cord")
        + line(12, 640, f"{bullet} green lamps.")
        + line(12, 620, "# No heading")
        + line(16, 600, "Prices")
        + line(12, 580, "They cost five euros.")
    )
    page = read_file(first, "a.pdf", "", plan(formats=({"type": "markdown"}, {"type": "html"})))

    assert page.markdown == (
        "# The lamps of 2026\n\nAll of them are cheap, and most of them are bright."
        "\n\n- red lamps with a long cord\n- green lamps.\n\n\\# No heading\n\n## Prices\n\nThey cost five euros."
    )
    for part in ("<h1>The lamps of 2026</h1>", "<li>green lamps.</li></ul>", "<h2>Prices</h2>"):
        assert part in page.html
