"""Operations that SDKs name beside the families: each has an answer, which may be what to use instead."""

import re
from collections.abc import Iterator
from pathlib import Path

import firecrawl
import pytest
from firecrawl.v2 import types as sdk

from receiver.emulator.api.dispatch import RouteTable
from tests.emulator.answering import checked_service, page

_PATH = re.compile(r"""["'](/v[12]/[\w/{}.-]+)""")


def named_paths() -> Iterator[str]:
    """Yield the paths that the SDK's code names, with x for what it puts in."""
    for file in Path(firecrawl.__file__).parent.rglob("*.py"):
        if "__tests__" not in file.parts:
            for path in _PATH.findall(file.read_text()):
                found = re.sub(r"\{suffix\}?|\{query\}?|\{$", "", path)
                yield re.sub(r"\{[^{}]*\}", "x", found).rstrip("/")


async def test_every_path_of_the_sdk_is_an_operation() -> None:
    async with checked_service() as service:
        routes = RouteTable(service.operations)
        paths = set(named_paths())
        unknown = [path for path in sorted(paths) if not routes.find("GET", path).methods]

    assert len(paths) > 30
    assert unknown in ([], ["/v2/search/research"])  # the second is the beginning of four others


async def test_pages_of_governments_and_for_developers_are_found() -> None:
    sites = {
        "https://www.law.gov.uk": {"/": page("Lamps need a licence.")},
        "https://docs.python.org": {"/lamp": page("The lamp module lights lamps.")},
        "https://shop.test": {"/": page("Lamps for sale.")},
    }
    async with checked_service(sites=sites) as service:
        gov = await service.ask("POST", "/v2/search/gov", {"query": "lamp", "k": 5})
        body = {"query": "lamp", "passages": 2, "min_stars": 5, "types": ["doc"], "origin": "js"}
        developer = await service.ask("POST", "/v2/search/developer", body)

    assert [(hit["url"], hit["category"]) for hit in gov["data"]["web"]] == [("https://www.law.gov.uk/", "gov")]
    assert [one["url"] for one in developer["results"]] == ["https://docs.python.org/lamp"]
    assert developer["results"][0]["passages"][0]["text"]
    assert "min_stars, types had no effect" in developer["warning"]
    assert sdk.GovSearchResponse.model_validate(gov).data.web[0].url
    assert sdk.DeveloperSearchResponse.model_validate(developer).results[0].title


async def test_filters_of_governments_pages_are_taken() -> None:
    """The emulator can follow that of the host; it says so of the others."""
    sites = {"https://www.law.gov.uk": {"/": page("A lamp.")}, "https://www.lamp.gov": {"/": page("A lamp.")}}
    labels = {"jurisdiction": "us-ca", "court": "scotus", "courtType": "state-supreme", "cites": "5 U.S. 137"}
    async with checked_service(sites=sites) as service:
        found = await service.ask("POST", "/v2/search/gov", {"query": "lamp", "domain": "www.lamp.gov", **labels})
        wrong = await service.ask("POST", "/v2/search/gov", {"query": "lamp", "domain": 5}, status=400)
        await service.ask("POST", "/v2/search/gov", {"query": "lamp", "domain": ""}, status=400)

    assert [hit["url"] for hit in found["data"]["web"]] == ["https://www.lamp.gov/"]
    assert "cites, court, courtType, jurisdiction had no effect" in found["warning"]
    assert wrong["details"][0]["path"] == ["domain"]


async def test_tools_of_alexandria_are_not_there() -> None:
    """The SDK sends them to the path of scrapes, in a body without a URL."""
    call = {"provider": "firecrawl", "capability": "find-tools", "options": {}}
    async with checked_service() as service:
        refused = await service.ask("POST", "/v2/scrape", {"alexandria": [call], "origin": "python"}, status=501)

    assert (refused["code"], "no tools of Alexandria" in refused["error"]) == ("NOT_IMPLEMENTED", True)


async def test_the_search_of_code_that_the_service_removed_is_gone() -> None:
    async with checked_service() as service:
        gone = await service.ask("GET", "/v2/search/research/github?query=a", status=410)

    assert "POST /v2/search/developer" in gone["error"]


@pytest.mark.parametrize(
    ("method", "path", "instead"),
    [
        ("GET", "/v2/search/research/papers?query=a", "POST /v2/search"),
        ("GET", "/v2/search/research/papers/arxiv%3A1/similar?intent=a", "POST /v2/search"),
        ("POST", "/v1/deep-research", "POST /v2/agent"),
        ("POST", "/v1/llmstxt", "POST /v2/map"),
    ],
)
async def test_what_is_not_there_says_what_to_use_instead(method: str, path: str, instead: str) -> None:
    async with checked_service() as service:
        refused = await service.ask(method, path, {} if method == "POST" else None, status=501)

    assert refused["code"] == "NOT_IMPLEMENTED"
    assert instead in refused["error"]
