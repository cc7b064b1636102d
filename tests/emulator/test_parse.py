"""Uploads: what is read, what is refused, what it costs, and how our client and the SDK ask for it."""

import json
from typing import Any

import httpx
import pytest

from receiver.service.client import AsyncClient
from tests.emulator import schemas
from tests.emulator.answering import CheckedService, checked_service
from tests.emulator.content.files import docx, paragraph, pdf
from tests.emulator.shop import shop

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


async def upload(
    service: CheckedService, body: bytes, name: str, kind: str = "", status: int = 200, **options: Any
) -> Any:
    """Parse a file and return the answer."""
    files = {"file": (name, body, kind)} if kind else {"file": (name, body)}
    return await service.ask("POST", "/v2/parse", status=status, files=files, data={"options": json.dumps(options)})


async def test_a_file_has_a_document_without_urls() -> None:
    async with checked_service() as service:
        answer = await upload(service, b"<title>T</title><h1>Hello</h1><nav>x</nav>", "a.html", "text/html")
        listed = await service.ask("GET", "/v2/parse/formats")
        kept = await service.ask(
            "GET", f"/v2/scrape/{answer['data']['metadata']['scrapeId']}", schema=schemas.PARSE
        )

    metadata = answer["data"]["metadata"]
    assert answer["data"]["markdown"] == "# Hello"
    assert (metadata["title"], metadata["contentType"], metadata["statusCode"]) == ("T", "text/html", 200)
    assert not {"url", "sourceURL", "proxyUsed", "cacheState"} & metadata.keys()
    assert kept["data"] == answer["data"]
    formats = {one["format"]: one["available"] for one in listed["data"]["formats"]}
    assert formats["pdf"]
    assert not formats["doc"]


async def test_pages_of_a_pdf_are_counted_and_paid_for() -> None:
    """`maxPages` bounds both."""
    async with checked_service() as service:
        whole = await upload(service, pdf("One", "Two", "Three"), "a.pdf")
        part = await upload(service, pdf("One", "Two", "Three"), "a.pdf", parsers=[{"type": "pdf", "maxPages": 2}])
        raw = await upload(service, pdf("One"), "a.pdf", parsers=[])
        left = (await service.ask("GET", "/v2/team/credit-usage"))["data"]["remainingCredits"]

    assert [one["data"]["metadata"].get("numPages") for one in (whole, part, raw)] == [3, 2, None]
    assert part["data"]["metadata"]["totalPages"] == 3
    assert part["data"]["markdown"] == "One\n\nTwo"
    assert left == 100_000 - 3 - 2 - 1


async def test_formats_of_a_page_are_made_of_a_file() -> None:
    async with checked_service() as service:
        body = docx(paragraph("Title", "Heading1") + paragraph("Mail me@x.example. It costs 5 euros today."))
        formats = ["markdown", "html", "links", "summary", {"type": "json", "schema": SCHEMA}]
        answer = await upload(service, body, "a.docx", formats=formats, redactPII=True)

    assert answer["data"].keys() == {"markdown", "html", "links", "summary", "json", "metadata"}
    assert "<EMAIL>" in answer["data"]["markdown"]
    assert answer["data"]["metadata"]["creditsUsed"] == 9


@pytest.mark.parametrize(
    ("name", "kind", "body"),
    [
        ("a.csv", "", b"a,b\n1,2"),
        ("A.CSV", "application/pdf", b"a,b\n1,2"),
        ("upload", "text/csv", b"a,b\n1,2"),
        ("a.tsv", "", b"a\tb\n1\t2"),
    ],
)
async def test_the_end_of_the_name_says_the_kind(name: str, kind: str, body: bytes) -> None:
    """Without one the media type does; without both, the first bytes."""
    async with checked_service() as service:
        assert (await upload(service, body, name, kind))["data"]["markdown"].startswith("| a | b |")
        sniffed = await upload(service, pdf("One"), "upload")
        assert sniffed["data"]["markdown"] == "One"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"actions": [{"type": "wait", "milliseconds": 1}]}, "actions"),
        ({"waitFor": 10}, "waitFor"),
        ({"location": {"country": "DE"}}, "location"),
        ({"mobile": True}, "mobile"),
        ({"proxy": "stealth"}, "proxy"),
        ({"formats": ["screenshot"]}, "screenshot"),
        ({"formats": ["markdown", {"type": "changeTracking"}]}, "changeTracking"),
        ({"formats": ["branding"]}, "branding"),
        ({"formats": ["rawBase64"]}, "rawBase64"),
    ],
)
async def test_options_of_a_page_alone_are_refused(options: dict[str, Any], named: str) -> None:
    async with checked_service() as service:
        answer = await upload(service, b"x", "a.txt", status=400, **options)

    assert answer["code"] == "PARSE_UNSUPPORTED_OPTIONS"
    assert named in answer["error"]


async def test_what_is_no_file_is_refused() -> None:
    """No file, an empty one, one of an unknown kind, options that are none, and a body that is too large."""
    async with checked_service() as service:
        assert "part 'file'" in (await service.ask("POST", "/v2/parse", {}, status=400))["error"]
        assert "empty" in (await upload(service, b"", "a.txt", status=400))["error"]
        for name, kind in (("a.doc", ""), ("a.exe", ""), ("a", "image/png"), ("a.xls", "application/pdf")):
            answer = await upload(service, b"MZ\x00\x01", name, kind, status=400)
            assert answer["code"] == "UNSUPPORTED_FILE_TYPE", name
        for options, code in (("{", "BAD_REQUEST_INVALID_JSON"), ("[]", "BAD_REQUEST")):
            answer = await service.ask(
                "POST", "/v2/parse", status=400, files={"file": ("a.txt", b"x")}, data={"options": options}
            )
            assert answer["code"] == code
        assert (await upload(service, b"x", "a.txt", status=400, unknown=1))["code"] == "BAD_REQUEST"
        huge = await upload(service, bytes(50 * 1024 * 1024 + 1), "a.txt", status=413)
        assert huge["error"] == "Request body is too large"
        for body, name in ((b"PK\x03\x04", "a.docx"), (b"%PDF-", "a.pdf"), (b"x", "a.epub")):
            answer = await upload(service, body, name, status=500)
            assert answer["code"] == "SCRAPE_ALL_ENGINES_FAILED"


async def test_our_client_and_the_sdk_read_files() -> None:
    async with checked_service() as service:
        transport = httpx.ASGITransport(service.emulator)
        async with AsyncClient("fc-test", "http://emulator.test", transport=transport) as client:
            document = await client.parse(b"a;b\n1;2", "a.csv", formats=["markdown", "links"])
    assert document.markdown == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    async with shop() as one:
        read = await one.call("parse", b"# Hello\n\n- a", filename="a.md")
        formats = await one.call("get_parse_formats")
    assert read.markdown == "# Hello\n\n- a"
    assert read.metadata.status_code == 200
    assert {"pdf", "docx", "epub"} <= {one.format for one in formats if one.available}
