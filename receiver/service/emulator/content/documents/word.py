"""Word files (mammoth) and RTF (striprtf)."""

from io import BytesIO
from typing import Any

import mammoth
from striprtf import striprtf

from receiver.service.emulator.content.documents import markup
from receiver.service.emulator.content.documents.archive import Archive
from receiver.service.emulator.content.documents.words import MAX_TEXT, DocumentText


def read_docx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of a .docx file, without its pictures."""
    archive = Archive(body)
    archive.check_xml()
    title = markup.title_in(archive.read_if_there("docProps/core.xml"))
    without_pictures = mammoth.images.img_element(lambda _image: {"src": ""})
    result = mammoth.convert_to_html(BytesIO(body), convert_image=without_pictures)
    return DocumentText(markup.page(title, result.value[:MAX_TEXT]), title=title)


def read_rtf(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of an .rtf file."""
    text = str(striprtf.rtf_to_text(body.decode("latin-1"), errors="ignore"))[:MAX_TEXT]
    return DocumentText(markup.page("", *(markup.paragraph(line) for line in text.split("\n") if line.strip())))
