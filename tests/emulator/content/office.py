"""Files made by other programs' libraries: python-docx, python-pptx and odfpy. They are needed in `dev` alone."""

from io import BytesIO
from typing import Any

LINK = "https://acme.test/price"


def word_file() -> bytes:
    """Return a Word file with headings, lists, a table, a link and emphasis."""
    import docx
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    file = docx.Document()
    file.core_properties.title = "Lamps"
    file.add_heading("Lamps of 2026", 0)
    file.add_heading("Prices", 1)
    paragraph = file.add_paragraph("All are ")
    paragraph.add_run("cheap").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("bright").italic = True
    for text, style in (("red", "List Bullet"), ("dark", "List Bullet 2"), ("green", "List Bullet")):
        file.add_paragraph(text, style=style)
    for text in ("plug in", "switch on"):
        file.add_paragraph(text, style="List Number")
    file.add_paragraph("A customer said so.", style="Quote")
    _fill(file.add_table(2, 2))
    target = file.part.relate_to(LINK, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    link, run, text = OxmlElement("w:hyperlink"), OxmlElement("w:r"), OxmlElement("w:t")
    link.set(qn("r:id"), target)
    text.text = "the list"
    run.append(text)
    link.append(run)
    file.add_paragraph("See ")._p.append(link)
    return _saved(file)


def slides_file() -> bytes:
    """Return a presentation whose second slide was moved to the front."""
    import pptx

    file = pptx.Presentation()
    first = file.slides.add_slide(file.slide_layouts[1])
    first.shapes.title.text = "Details"
    frame = first.placeholders[1].text_frame
    frame.text = "one"
    inner = frame.add_paragraph()
    inner.text, inner.level = "inner", 1
    run = frame.add_paragraph().add_run()
    run.text, run.hyperlink.address = "the list", LINK
    first.notes_slide.notes_text_frame.text = "Say this aloud."
    second = file.slides.add_slide(file.slide_layouts[5])
    second.shapes.title.text = "Overview"
    _fill(second.shapes.add_table(2, 2, 0, 0, 999_999, 999_999).table)
    box = second.shapes.add_textbox(0, 0, 99, 99).text_frame
    box.text = "A box"
    box.paragraphs[0].runs[0].font.bold = True
    order = file.slides._sldIdLst
    order.insert(0, order[1])
    return _saved(file)


def text_file() -> bytes:
    """Return an OpenDocument text with a numbered list, a list in it, a table, a link and emphasis."""
    from odf.opendocument import OpenDocumentText
    from odf.style import Style, TextProperties
    from odf.table import Table, TableCell, TableHeaderRows, TableRow
    from odf.text import A, H, List, ListItem, ListLevelStyleBullet, ListLevelStyleNumber, ListStyle, P, Span

    file = OpenDocumentText()
    bold = Style(name="T1", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    numbers = ListStyle(name="L1")
    numbers.addElement(ListLevelStyleNumber(level="1", numformat="1"))
    numbers.addElement(ListLevelStyleBullet(level="2", bulletchar="*"))
    for style in (bold, numbers):
        file.automaticstyles.addElement(style)
    file.text.addElement(H(outlinelevel=1, text="Prices"))
    paragraph = P(text="All are ")
    paragraph.addElement(Span(stylename=bold, text="cheap"))
    paragraph.addText(", see ")
    paragraph.addElement(A(href=LINK, text="the list"))
    file.text.addElement(paragraph)
    outer, inner = List(stylename=numbers), List()
    item = ListItem()
    item.addElement(P(text="inner"))
    inner.addElement(item)
    for text in ("plug in", "switch on"):
        item = ListItem()
        item.addElement(P(text=text))
        outer.addElement(item)
    item.addElement(inner)
    file.text.addElement(outer)
    table, head = Table(name="T"), TableHeaderRows()
    for parent, cells in ((head, ("a", "b")), (table, ("1", "2"))):
        row = TableRow()
        for text in cells:
            cell = TableCell()
            cell.addElement(P(text=text))
            row.addElement(cell)
        if parent is head:
            table.addElement(head)
        parent.addElement(row)
    file.text.addElement(table)
    return _saved(file)


def sheet_file() -> bytes:
    """Return an OpenDocument spreadsheet of two sheets."""
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    file = OpenDocumentSpreadsheet()
    for name, rows in (("Prices", (("Name", "Price"), ("Lamp", "5"))), ("Stock", (("Lamp", "", "7"),))):
        table = Table(name=name)
        for values in rows:
            row = TableRow()
            for value in values:
                cell = TableCell(valuetype="string")
                if value:
                    cell.addElement(P(text=value))
                row.addElement(cell)
            row.addElement(TableCell(numbercolumnsrepeated=1000))
            table.addElement(row)
        file.spreadsheet.addElement(table)
    return _saved(file)


def _fill(table: Any) -> None:
    for row, texts in enumerate((("Name", "Price"), ("Lamp", "5"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text


def _saved(file: Any) -> bytes:
    body = BytesIO()
    file.save(body)
    return body.getvalue()
