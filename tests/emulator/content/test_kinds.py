"""What kind of content a body is."""

import zipfile
from io import BytesIO

import pytest

from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.failures import ScrapeFailed
from tests.emulator.content.pages import plan, read, read_file

OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def zipped(**entries: str) -> bytes:
    """Return an archive with some texts."""
    body = BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name.replace("__", "/"), text)
    return body.getvalue()


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/html; charset=utf-8", ContentKind.HTML),
        ("application/xhtml+xml", ContentKind.HTML),
        ("application/json", ContentKind.JSON),
        ("application/ld+json", ContentKind.JSON),
        ("application/rss+xml", ContentKind.XML),
        ("text/markdown", ContentKind.TEXT),
        ("text/css", ContentKind.TEXT),
        ("application/pdf", ContentKind.PDF),
        (OFFICE, ContentKind.DOCX),
        ("image/png", ContentKind.UNSUPPORTED),
        ("image/svg+xml", ContentKind.UNSUPPORTED),
        ("video/mp4", ContentKind.UNSUPPORTED),
        ("application/gzip", ContentKind.UNSUPPORTED),
        ("application/x-msdownload", ContentKind.UNSUPPORTED),
    ],
)
def test_the_type_decides(content_type: str, kind: ContentKind) -> None:
    """Whatever the address ends with."""
    assert kind_of(b"<p>", content_type, "https://a.test/x.pdf") is kind


@pytest.mark.parametrize(
    ("body", "name", "kind"),
    [
        (b"", "https://a.test/x.docx?y=1", ContentKind.DOCX),
        (b"", "https://a.test/x.CSV", ContentKind.CSV),
        (b"%PDF-1.7", "https://a.test/x", ContentKind.PDF),
        (b"{\\rtf1", "https://a.test/", ContentKind.RTF),
        (b'\xef\xbb\xbf {"a":1}', "https://a.test/", ContentKind.JSON),
        (b"<?xml version='1.0'?><rss>", "https://a.test/", ContentKind.XML),
        (b"<?xml version='1.0'?><html>", "https://a.test/", ContentKind.HTML),
        (b"<p>a", "https://a.test/", ContentKind.HTML),
        (b"just text", "https://a.test/", ContentKind.TEXT),
        (b"MZ\x90\x00", "https://a.test/", ContentKind.UNSUPPORTED),
        (zipped(word__document="x"), "https://a.test/", ContentKind.DOCX),
        (zipped(mimetype="application/epub+zip"), "https://a.test/", ContentKind.EPUB),
        (zipped(other="x"), "https://a.test/", ContentKind.UNSUPPORTED),
        (b"PK\x03\x04broken", "https://a.test/", ContentKind.UNSUPPORTED),
        (b"", "http://[bad", ContentKind.HTML),
    ],
)
def test_without_a_type_name_and_first_bytes_decide(body: bytes, name: str, kind: ContentKind) -> None:
    """`application/octet-stream` says no more than nothing."""
    assert kind_of(body, "", name) is kind
    assert kind_of(body, "application/octet-stream", name) is kind


def test_the_name_of_an_upload_says_more_than_its_type() -> None:
    """Browsers and tools guess types."""
    assert kind_of(b"", "text/plain", "a.csv", name_first=True) is ContentKind.CSV
    assert read_file(b"<h1>a</h1>", "a.html", "application/octet-stream", plan()).markdown == "# a"


@pytest.mark.parametrize("content_type", ["image/png", "video/mp4", "application/zip", "application/x-executable"])
def test_files_without_text_are_refused(content_type: str) -> None:
    """With the service's code."""
    with pytest.raises(ScrapeFailed) as refused:
        read(b"\x00\x01", content_type=content_type)

    assert refused.value.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", '{"a": [1]}\n', '```json\n{"a": [1]}\n```'),
        ("application/json", '"```"', '````json\n"```"\n````'),
        ("application/json", '{\n  "a": 1\n}', '```json\n{\n  "a": 1\n}\n```'),
        ("text/plain", "a *b*\n\n\n# c", "a *b*\n\n\n# c"),
        ("text/xml", "<a/>", "```xml\n<a/>\n```"),
        ("text/csv", "a,b\n1,2", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
    ],
)
def test_text_that_is_no_page_has_its_markdown(content_type: str, body: str, expected: str) -> None:
    """Data is fenced, text is as it was."""
    content = read(body, content_type=content_type)

    assert content.markdown == expected


def test_the_raw_forms_are_the_body() -> None:
    """`rawHtml` is the text as it was read, `rawBase64` the bytes."""
    content = read(b"<P>\xe9", "rawHtml", "rawBase64", content_type="text/html; charset=latin1")

    assert (content.raw_html, content.raw_base64, content.markdown) == ("<P>é", "PFA+6Q==", "")
