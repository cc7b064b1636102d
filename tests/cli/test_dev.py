"""What `receiver dev` says at its start. What it does is in tests/process/test_reload.py."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from receiver.cli.dev import emulator_answers, emulator_url, introduction
from receiver.settings import Settings

ADDRESS = "http://127.0.0.1:8000"

pytestmark = pytest.mark.usefixtures("bare_environment")


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Answer every GET with this body for a block; yield the address."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "answers"),
    [
        (200, b'{"message": "an emulator"}', True),
        (200, b"<html>", False),
        (200, b"[]", False),
        (404, b"{}", False),
    ],
)
def test_an_emulator_answers_with_a_json_object(status: int, body: bytes, answers: bool) -> None:
    """Another program may listen at its address."""
    with answering(status, body) as url:
        assert emulator_answers(url) is answers

    assert not emulator_answers(url)


def test_the_introduction_says_how_the_service_reaches_this_machine() -> None:
    """It has the commands for a tunnel and the setting to fill, on lines of 80 characters."""
    text = introduction(Settings(), ADDRESS, emulator=None)

    assert "cloudflared tunnel --url http://127.0.0.1:8000\n" in text
    assert "ngrok http 8000\n" in text
    assert "RECEIVER_PUBLIC_URL" in text
    assert "emulator" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.firecrawl.dev", "http://127.0.0.1:3002"),
        ("http://localhost:4000/", "http://localhost:4000"),
    ],
)
def test_an_emulator_is_looked_for_where_the_settings_say(base_url: str, url: str) -> None:
    """A base URL on another machine is never asked. One that is set already needs no advice."""
    settings = Settings(base_url=base_url)

    assert emulator_url(settings) == url
    text = introduction(settings, ADDRESS, emulator=url)
    assert f"emulator    {url} is running\n" in text
    assert ("RECEIVER_BASE_URL" in text) is (url not in base_url)


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("http://127.0.0.1:8000", "receiver send crawl --pages 5\n"),
        ("http://127.0.0.1:8123", "receiver send crawl --pages 5 --to http://127.0.0.1:8123/webhooks\n"),
    ],
)
def test_the_introduction_has_a_command_that_sends_to_this_receiver(address: str, command: str) -> None:
    """Also if a flag has changed the address: the other terminal does not know it."""
    text = introduction(Settings(), address, emulator=None)

    assert command in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_introduction_has_the_webhook_to_paste() -> None:
    """With a public URL nobody needs the advice about tunnels."""
    text = introduction(Settings(public_url="https://a.example/", path="/in"), ADDRESS, emulator="http://e:1")

    assert "webhook     https://a.example/in\n" in text
    assert "RECEIVER_BASE_URL=http://e:1\n" in text
    assert "tunnel" not in text
