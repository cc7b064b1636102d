"""From bytes to text, as browsers do it: byte order mark, header, `meta`, then UTF-8."""

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PRESCAN = 4096
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{0,1000}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]+)", re.IGNORECASE)
_IN_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_:.-]+)", re.IGNORECASE)

# https://encoding.spec.whatwg.org/#names-and-labels: a page that says latin-1 means windows-1252, and so on.
# Only these are looked up: Python's own table also has codecs that are no character sets.
_CODECS = {
    "utf-8": "utf8 unicode-1-1-utf-8 utf8",
    "cp1252": "ascii us-ascii latin1 latin-1 l1 iso-8859-1 iso8859-1 iso_8859-1 windows-1252 x-cp1252 cp819",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 latin3",
    "iso8859-4": "iso-8859-4 iso8859-4 latin4",
    "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 arabic",
    "iso8859-7": "iso-8859-7 iso8859-7 greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i hebrew logical",
    "cp1254": "iso-8859-9 iso8859-9 latin5 l5 windows-1254 cp1254",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9 latin-9 l9",
    "iso8859-16": "iso-8859-16 iso8859-16",
    "koi8-r": "koi8-r koi8 koi koi8_r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp866": "ibm866 cp866 866",
    "cp874": "windows-874 tis-620 iso-8859-11 dos-874",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "gb18030": "gb2312 gbk gb18030 x-gbk chinese gb_2312-80 csgb2312",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis windows-31j ms_kanji",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949 cseuckr",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2",
    "utf-16-be": "utf-16be unicodefffe",
}
_CODEC_OF = {label: codec for codec, labels in _CODECS.items() for label in (codec, *labels.split())}


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of a body. It never fails: what does not fit becomes U+FFFD."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    return body.decode(codec_of(body, content_type), "replace")


def codec_of(body: bytes, content_type: str = "") -> str:
    """Return the name of Python's codec for a body without byte order mark."""
    if (found := _IN_HEADER.search(content_type)) and (codec := _CODEC_OF.get(found[1].lower())):
        return codec
    head = body[:_PRESCAN]
    for pattern in (_IN_META, _IN_XML):
        if (declared := pattern.search(head)) and (codec := _CODEC_OF.get(declared[1].decode().lower())):
            # Had it been UTF-16, this could not have been read.
            return "utf-8" if codec.startswith("utf-16") else codec
    return "utf-8"
