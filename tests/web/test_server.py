"""Tests of the number of connections, of failed accepts, and of apps that fail."""

import asyncio
import errno
import logging
import resource
import socket
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from receiver.errors import ConfigurationError
from receiver.web.listening import bind
from receiver.web.protocol import HttpProtocol
from receiver.web.server import AcceptFailures, make_server
from tests.doubles import event_of

NO_FILE = {
    "message": "socket.accept() out of system resource",
    "exception": OSError(errno.EMFILE, "Too many"),
}


def test_a_taken_port_is_refused_with_the_way_to_choose_another() -> None:
    """The console and the endpoint have flags of their own."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for given, way in (({}, "--port"), ({"port_by": "RECEIVER_CONSOLE_PORT"}, "RECEIVER_CONSOLE_PORT")):
            with pytest.raises(ConfigurationError, match=f"{port} on 127.0.0.1 is taken.* another with {way}$"):
                bind("127.0.0.1", port, **given)


async def _app(scope: Any, receive: Any, send: Any) -> None: ...


def test_idle_connections_stay_open_for_longer_than_a_load_balancer_waits() -> None:
    """Else it sends a request just when the server closes. Most wait for a minute."""
    server = make_server(_app, read_timeout=timedelta(seconds=4), shutdown=timedelta(seconds=1))

    assert server.config.timeout_keep_alive > 60


@pytest.mark.parametrize(
    ("soft", "hard", "most"),
    [
        (1024, 4096, 2_000),
        (1024, resource.RLIM_INFINITY, 2_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 2_000),
        (100_000, 100_000, 2_000),
        (1024, 1024, 874),
        (256, 256, 106),
        (64, 64, 20),
    ],
)
def test_connections_stay_below_the_limit_on_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int
) -> None:
    """The limit is raised as far as allowed. The rest is for the store and for refused connections."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)

    server = make_server(_app, read_timeout=timedelta(seconds=4), shutdown=timedelta(seconds=1))

    protocol = server.config.http
    assert isinstance(protocol, type)
    assert issubclass(protocol, HttpProtocol)
    assert protocol.shared.most == most


@pytest.mark.parametrize(("processes", "most"), [(1, 2_000), (2, 1_000), (3, 666), (500, 20)])
def test_processes_that_share_a_socket_share_the_connections(
    monkeypatch: pytest.MonkeyPatch, processes: int, most: int
) -> None:
    """Together they have no more than one process, but each has a few."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    times = timedelta(seconds=4)

    server = make_server(_app, read_timeout=times, shutdown=times, processes=processes)

    protocol = server.config.http
    assert isinstance(protocol, type)
    assert issubclass(protocol, HttpProtocol)
    assert protocol.shared.most == most


async def test_connections_that_cannot_be_accepted_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio itself would log a traceback for each attempt."""
    loop, handler, now = asyncio.get_running_loop(), AcceptFailures(), 0.0
    monkeypatch.setattr(loop, "time", lambda: now)
    for moment in (0.0, 0.0, 1.0, 50.0, 100.0, 161.0, 162.0):
        now = moment
        handler(loop, NO_FILE)
    monkeypatch.undo()

    assert [event_of(record) for record in caplog.records] == ["connections_not_accepted"] * 2
    assert vars(caplog.records[0])["reason"] == "Too many"


async def test_other_errors_of_the_event_loop_are_logged_by_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    """Each of them is logged."""
    caplog.set_level(logging.ERROR)
    handler = AcceptFailures()
    for _ in range(2):
        handler(asyncio.get_running_loop(), {"message": "something else", "exception": ValueError("x")})

    assert [record.getMessage() for record in caplog.records] == ["something else"] * 2
