"""What tools see of the clients' methods: signatures, mocks, help, and the options that can be given by keyword."""

import inspect
import pydoc
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypedDict, Union, get_type_hints
from unittest.mock import create_autospec

import pytest

from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MapRequest,
    MonitorChanges,
    MonitorRequest,
    ParseRequest,
    Request,
    ScrapeRequest,
    ScrapeRequestV2,
    SearchRequest,
)
from receiver.requests.formats import Format
from receiver.requests.scrape import ScrapeFormat
from receiver.service.client import AsyncClient, Client, keywords
from receiver.service.responses import JobStarted, JobStatus
from tests.cases import for_each
from tests.service.client.calling import KEY

OPERATIONS = sorted(name for name, value in vars(Client).items() if hasattr(value, "__wrapped__"))
both_clients = pytest.mark.parametrize("client", [AsyncClient, Client])


class BothVersions(TypedDict):
    """The option whose type differs between the versions of a scrape."""

    formats: Sequence[ScrapeFormat | Format] | None


@for_each(
    ("options", "requests", "parameters"),
    [
        (keywords.ScrapeKeywords, (ScrapeRequest, ScrapeRequestV2), {"url"}),
        (keywords.ParseKeywords, (ParseRequest,), {"file", "filename"}),
        (keywords.MapKeywords, (MapRequest,), {"url"}),
        (keywords.SearchKeywords, (SearchRequest,), {"query"}),
        (keywords.CrawlKeywords, (CrawlRequest,), {"url", "webhook"}),
        (keywords.BatchScrapeKeywords, (BatchScrapeRequest,), {"urls", "webhook"}),
        (keywords.ExtractKeywords, (ExtractRequest,), {"urls", "webhook"}),
        (keywords.AgentKeywords, (AgentRequest,), {"prompt", "webhook"}),
        (keywords.MonitorKeywords, (MonitorRequest,), {"name"}),
        (keywords.MonitorChangeKeywords, (MonitorChanges,), set()),
    ],
)
def test_options_are_the_fields_of_the_request(
    options: Any, requests: tuple[type[Request], ...], parameters: set[str]
) -> None:
    """Type checkers need them written out. Names and types are those of the request classes."""
    fields: dict[str, Any] = {}
    for request in requests:
        hints = get_type_hints(request)
        for name in request.model_fields.keys() - parameters:
            fields[name] = Union[fields.get(name, hints[name]), hints[name]]  # noqa: UP007 - of values, not of words
    if len(requests) > 1:
        fields |= get_type_hints(BothVersions)

    assert get_type_hints(options) == fields


@both_clients
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_method_shows_the_parameters_of_its_operation(client: Any, name: str) -> None:
    """The function has `self` first, the bound method has not, and no parameter is a mere `options`."""
    unbound = inspect.signature(getattr(client, name))
    bound = inspect.signature(getattr(client(KEY), name))

    assert list(unbound.parameters) == ["self", *bound.parameters]
    built = inspect.signature(inspect.unwrap(getattr(client, name)))
    given = [one.name for one in built.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    assert list(bound.parameters)[: len(given)] == given
    assert "options" not in bound.parameters
    assert inspect.iscoroutinefunction(getattr(client, name)) == (client is AsyncClient and "pages" not in name)


def test_a_method_shows_what_it_returns() -> None:
    """It is the result, not the call that asks for it."""
    assert inspect.signature(Client.crawl).return_annotation is JobStarted
    assert inspect.signature(AsyncClient.crawl).return_annotation is JobStarted
    assert inspect.signature(Client.crawl_pages).return_annotation == Iterator[JobStatus]
    assert inspect.signature(AsyncClient.crawl_pages).return_annotation == AsyncIterator[JobStatus]
    assert inspect.signature(Client.crawl).parameters["limit"].annotation is int


@both_clients
async def test_a_mock_takes_only_what_the_client_takes(client: Any) -> None:
    """Tests of handlers use such mocks."""
    mock = create_autospec(client, instance=True)

    made = mock.crawl("https://example.com", limit=5)
    if client is AsyncClient:
        await made
    mock.crawl.assert_called_once_with("https://example.com", limit=5)
    with pytest.raises(TypeError):
        mock.crawl("https://example.com", limt=5)
    with pytest.raises(TypeError):
        mock.crawl_status()


@both_clients
def test_help_shows_parameters_and_docs(client: Any) -> None:
    """Every method is there, under its name in the client."""
    shown = pydoc.plain(pydoc.render_doc(client))

    assert "Start a crawl of a site, by its URL and options or a whole request" in shown
    squeezed = "".join(shown.replace("|", "").split())  # Python 3.13 breaks long signatures into lines
    for name in OPERATIONS:
        assert f"{name}(self," in squeezed
    assert "limit:int=unset" in squeezed
