"""From bytes to text."""

import codecs

import pytest

from receiver.emulator.content.page import _CODECS, decode


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é€".encode(), "", "é€"),
        ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é"),
        ("“a”".encode("cp1252"), 'text/html; charset="latin1"', "“a”"),
        ("日本".encode("cp932"), "text/html;charset=Shift_JIS", "日本"),
        ("中文".encode("gb18030"), "text/html; charset=gb2312", "中文"),
        ("한국".encode("cp949"), "text/html; charset=euc-kr", "한국"),
        ("привет".encode("cp1251"), "text/html; charset=windows-1251", "привет"),
        (codecs.BOM_UTF8 + "é".encode(), "text/html; charset=latin1", "é"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "", "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "text/html; charset=utf-8", "é"),
        (b"\xff\xe9a", "", "\ufffd\ufffda"),
        ("é".encode(), "text/html; charset=nonsense", "é"),
        (b"a", "text/html; charset=zlib", "a"),
        (b"a", "text/html; charset=idna", "a"),
        (b"+AOk-", "text/html; charset=utf-7", "+AOk-"),
    ],
)
def test_bytes_become_text(body: bytes, content_type: str, text: str) -> None:
    """Byte order mark, then header, then UTF-8. Only character sets count, and none makes it fail."""
    assert decode(body, content_type) == text


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="windows-1251">',
        "<META http-equiv=Content-Type content='text/html; charset=windows-1251'>",
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_page_declares_its_charset(declaration: str) -> None:
    """If the header does not."""
    body = declaration.encode() + "привет".encode("cp1251")

    assert decode(body, "text/html").endswith("привет")
    assert not decode(body, "text/html; charset=utf-8").endswith("привет")


def test_a_declaration_of_utf_16_that_could_be_read_is_wrong() -> None:
    """https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream-to-determine-its-encoding"""
    assert decode("<meta charset=utf-16>é".encode()).endswith("é")


@pytest.mark.parametrize("codec", _CODECS)
def test_every_codec_is_there(codec: str) -> None:
    """Python may be built without some; these are in its standard library."""
    assert codecs.lookup(codec)
