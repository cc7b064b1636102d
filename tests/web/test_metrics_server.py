"""Tests that handlers cannot block the metrics of a worker, and that a worker runs without them."""

import asyncio
import logging
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from receiver.web.metrics import MetricsEndpoint
from receiver.web.metrics_server import serve_metrics
from tests.doubles import LONG, event_of, soon

TEXT = b"# TYPE receiver_x gauge\nreceiver_x 1.0\n"


async def read() -> bytes:
    return TEXT


def url_of(caplog: pytest.LogCaptureFixture) -> str:
    """Return the address of the metrics from the log."""
    [record] = [record for record in caplog.records if event_of(record) == "serving_metrics"]
    return str(record.__dict__["url"])


def fetch(url: str) -> tuple[int, bytes]:
    """Send a request like a scraper, and wait for the answer while the event loop is blocked."""
    try:
        with urllib.request.urlopen(url, timeout=LONG) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_metrics_are_served_while_the_event_loop_is_blocked(
    caplog: pytest.LogCaptureFixture, host: str
) -> None:
    """This test blocks the event loop that handlers share."""
    caplog.set_level(logging.INFO)
    if host == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 here")
    async with serve_metrics(MetricsEndpoint(read, token=None), host, 0):
        url = url_of(caplog)

        assert fetch(url) == (200, TEXT)
        assert fetch(url.replace("/metrics", "/"))[0] == 404
        assert fetch(url.replace("/metrics", "/metrics/../etc/passwd"))[0] == 404


async def test_the_server_ends_with_its_block(caplog: pytest.LogCaptureFixture) -> None:
    """This holds even while a scraper keeps its connection open."""
    caplog.set_level(logging.INFO)
    async with serve_metrics(MetricsEndpoint(read, token=None), "127.0.0.1", 0):
        port = int(url_of(caplog).rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await soon(reader.readuntil(TEXT))
    await soon(reader.read())
    writer.close()

    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_server_may_end_before_its_start(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that is stopped at once releases the port."""
    caplog.set_level(logging.INFO)
    for _ in range(5):
        caplog.clear()
        async with serve_metrics(MetricsEndpoint(read, token=None), "127.0.0.1", 0):
            port = int(url_of(caplog).rpartition(":")[2].partition("/")[0])

        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_used_port_is_logged_and_the_worker_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers are more important than metrics."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        async with serve_metrics(MetricsEndpoint(read, token=None), "127.0.0.1", port):
            [record] = caplog.records

    assert record.levelno == logging.WARNING
    assert event_of(record) == "metrics_not_served"
    assert record.__dict__["reason"] == f"port {port} on 127.0.0.1 is taken by another program"
    assert "RECEIVER_METRICS_PORT" in record.__dict__["advice"]


async def test_a_host_of_another_machine_is_logged_and_the_worker_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers are more important than metrics."""
    async with serve_metrics(MetricsEndpoint(read, token="t"), "no.such.host.invalid", 0):
        pass

    assert [event_of(record) for record in caplog.records] == ["metrics_not_served"]


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
