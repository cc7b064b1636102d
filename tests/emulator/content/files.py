"""Small files of the kinds that are no pages, made here."""

import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
)
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
CORE = '<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>The title</dc:title></cp:coreProperties>'


def archive(entries: Mapping[str, str | bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    body = BytesIO()
    with zipfile.ZipFile(body, "w", compression) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return body.getvalue()


def claiming(body: bytes, size: int) -> bytes:
    """Return an archive whose first entry says that it has this size unpacked."""
    place = body.index(b"PK\x01\x02") + 24
    return body[:place] + size.to_bytes(4, "little") + body[place + 4 :]


def docx(document: str, **more: str) -> bytes:
    """Return a Word file with this content of its body."""
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{types}">'
            '<Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}"'
            ' Target="word/document.xml"/></Relationships>',
            "word/document.xml": f"<w:document {W}><w:body>{document}</w:body></w:document>",
            "docProps/core.xml": CORE,
            **more,
        }
    )


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph of a Word file."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def odt(content: str) -> bytes:
    """Return an OpenDocument text."""
    return archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:document-content {ODF}>{content}</office:document-content>",
            "meta.xml": CORE,
        }
    )


def pdf(*pages: str, title: str = "", link: str = "") -> bytes:
    """Return a PDF with one line of text on each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        stream = zlib.compress(f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode("latin-1") if text else b"")
        objects.append(
            f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n{stream.decode('latin-1')}\nendstream"
        )
        annotation = (
            f"/Annots [<< /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI ({link}) >> >>]" if link else ""
        )
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {len(objects)} 0 R {annotation} >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    objects.append(f"<< /Title ({title}) >>")
    return _with_table(objects)


def _with_table(objects: list[str]) -> bytes:
    body = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(body)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return (
        body
        + f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n".encode()
        + (f"startxref\n{start}\n%%EOF\n".encode())
    )
