"""Messages to the chat webhook: their content, refusals by the chat, and the secrecy of its address."""

import json
import logging
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from handlers import monitors
from handlers.monitors import router
from receiver import Context, GiveUp, Retry, Router
from receiver.events import Event
from tests.handlers.deliveries import handle, payload

SECRET = "T0000-B0000-chat-secret"
HOUR = timedelta(hours=1)


@dataclass
class Chat:
    """A chat webhook: what it was sent, and what it answers."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def serving(chat: Chat) -> Iterator[str]:
    """Run the chat webhook and return its address."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            chat.paths.append(self.path)
            chat.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(chat.status)
            for name, value in chat.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    answering = Chat()
    with serving(answering) as address:
        monkeypatch.setenv("CHAT_WEBHOOK_URL", address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield answering


def test_a_change_is_posted_as_one_text(chat: Chat) -> None:
    """In the form of Slack's incoming webhooks, which other chats take too."""
    handle(router, payload("monitor.page"))

    assert chat.bodies == [
        {
            "text": "Page changed: https://example.com/prices\n"
            "The price of a gear tune went up, which is inside the goal.\n"
            "```\n- | Gear tune | 35 min | £18 |\n+ | Gear tune | 35 min | £21 |\n```"
        }
    ]


def test_nothing_is_logged_when_there_is_a_chat(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the message nor, by the HTTP library, the address."""
    with caplog.at_level(logging.INFO):
        handle(router, payload("monitor.check.completed"))

    assert len(chat.bodies) == 1
    assert caplog.records == []


def test_a_page_cannot_mention_people_or_leave_its_block(chat: Chat) -> None:
    """What chats of Slack's kind give a meaning is escaped, and a fence in the page does not end ours."""
    event = payload("monitor.page", data__0__url="<!channel> & <@U1>", data__0__diff={"text": "@@\n+```<!here>"})

    handle(router, event)

    text = chat.bodies[0]["text"]
    assert "<" not in text
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in text
    assert text.count("```") == 2
    assert "+ '''&lt;!here&gt;" in text


@pytest.mark.parametrize(
    ("status", "header", "attempt", "pause"),
    [
        (429, "7", 1, timedelta(seconds=7)),
        (429, "7", 3, timedelta(seconds=21)),
        (503, "Tue, 04 Aug 2026 12:00:30 GMT", 1, timedelta(seconds=30)),
        (429, "999999999", 1, HOUR),
        (429, "Fri, 31 Dec 9999 23:59:59 GMT", 1, HOUR),
        (429, "Tue, 04 Aug 2026 11:00:00 GMT", 1, None),
        (429, "0", 1, None),
        (429, "soon", 1, None),
        (429, "-5", 1, None),
        (429, "Tue, 04 Aug 2026 12:00:30 -0000", 1, None),
        (500, None, 1, None),
        (503, None, 1, None),
    ],
)
def test_a_busy_chat_is_tried_again_after_the_pause_it_asks_for(
    chat: Chat, status: int, header: str | None, attempt: int, pause: timedelta | None
) -> None:
    """Longer with each attempt, and at most an hour at first. Without such a pause the usual schedule applies."""
    chat.status, chat.headers = status, {} if header is None else {"Retry-After": header}

    with pytest.raises(Retry, match=f"answered {status}") as raised:
        handle(router, payload("monitor.page"), attempt=attempt)

    assert raised.value.after == pause
    assert not_told(raised.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 302, 307])
def test_a_chat_that_refuses_is_given_up(chat: Chat, status: int) -> None:
    """Trying again cannot help: the address is wrong, or the webhook was removed. Redirects are not followed."""
    chat.status, chat.headers = status, {"Location": "/elsewhere"}

    with pytest.raises(GiveUp, match=f"answered {status}: check CHAT_WEBHOOK_URL") as raised:
        handle(router, payload("monitor.page"))

    assert len(chat.paths) == 1
    assert not_told(raised.value)


def test_a_chat_that_cannot_be_reached_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network may work again later."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        monkeypatch.setenv("CHAT_WEBHOOK_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}")

        with pytest.raises(Retry, match="ConnectError") as raised:
            handle(router, payload("monitor.page"))

    assert not_told(raised.value)


def test_a_chat_that_never_answers_is_tried_again() -> None:
    """The handler's thread is free again after the time-out."""
    posts = Router()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"

        @posts.on("*", name="post")
        def post(event: Event, ctx: Context) -> None:
            monitors.post(address, "news", ctx, timeout_seconds=0.01)

        with pytest.raises(Retry, match="Timeout") as raised:
            handle(posts, payload("monitor.page"))

    assert not_told(raised.value)


@pytest.mark.parametrize(
    "address", [SECRET, f"ftp://example.com/{SECRET}", f"http://example.com:x/{SECRET}", f"http:///{SECRET}"]
)
def test_an_invalid_address_is_given_up(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """The operator has to correct it, and the error names the variable."""
    monkeypatch.setenv("CHAT_WEBHOOK_URL", address)

    with pytest.raises(GiveUp, match="CHAT_WEBHOOK_URL") as raised:
        handle(router, payload("monitor.page"))

    assert not_told(raised.value)


def not_told(error: BaseException) -> bool:
    """Tell whether the secret is neither in the error nor in its traceback."""
    return SECRET not in str(error) and SECRET not in "".join(traceback.format_exception(error))
