"""Word files, with mammoth."""

import re
from io import BytesIO
from typing import Any

import mammoth

from receiver.emulator.content.documents import markup
from receiver.emulator.content.documents.markup import MAX_TEXT, Archive, DocumentText

_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='List Bullet 2'] => ul|ol > li > ul > li:fresh
p[style-name='List Number 2'] => ul|ol > li > ol > li:fresh
p[style-name='List Bullet 3'] => ul|ol > li > ul|ol > li > ul > li:fresh
p[style-name='List Number 3'] => ul|ol > li > ul|ol > li > ol > li:fresh
"""
_FIRST_ROW = re.compile(r"<table>(<tr>.*?</tr>)", re.DOTALL)


def read_docx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of a .docx file, without its pictures."""
    archive = Archive(body)
    archive.check_xml()
    title = markup.title_in(archive.read_if_there("docProps/core.xml"))
    without_pictures = mammoth.images.img_element(lambda _image: {"src": ""})
    result = mammoth.convert_to_html(BytesIO(body), convert_image=without_pictures, style_map=_STYLES)
    html = _FIRST_ROW.sub(_as_heading, result.value[:MAX_TEXT])
    return DocumentText(markup.page(title, html), title=title)


def _as_heading(found: re.Match[str]) -> str:
    """Return the first row of a table as its heading, unless a table is inside of it."""
    row = found[1]
    if "<table" in row:
        return found[0]
    return "<table>" + row.replace("<td", "<th").replace("</td>", "</th>")
