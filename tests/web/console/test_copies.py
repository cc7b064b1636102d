"""What can be copied gives the same delivery again."""

import json
import shlex
import subprocess
from typing import Any

import pytest

from receiver.core.deliveries import DeliveryFilter
from receiver.core.envelope import read_envelope
from receiver.events import parse_event
from receiver.replay.expressions import compile_expression
from receiver.web.console.delivery_content import copies_of, quoted
from tests.doubles import NOON, body_of, delivery
from tests.stores.opened import Opened

ODD = "it's $HOME `id` \\n \u00a0 \u202e 😀 \x1b[31m 日本"


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"plain"}', b"@/etc/passwd", b"it's", b"a\nb\tc\r\n", b"\xff\xfe", ODD.encode(), b"\\", b"", b"$(id)",
        "\u00a0'\\".encode(),
    ],
)  # fmt: skip
def test_a_shell_sends_the_same_bytes(body: bytes) -> None:
    written = quoted(body)

    assert written.replace("\n", "").replace("\t", "").isprintable()
    shown = subprocess.run(["bash", "-c", f"printf %s {written}"], capture_output=True, check=True)
    assert shown.stdout == body


async def test_each_copy_is_of_this_delivery(opened: Opened) -> None:
    body = body_of(id="job", webhookId="it's 日本 😀 $HOME \"", data=[{"markdown": ODD}])
    await opened.add(read_envelope((), body, received_at=NOON))
    (stored,) = [one async for one in opened.reports.deliveries(DeliveryFilter())]

    copies = dict(copies_of(await opened.reports.detail(stored.key), "http://127.0.0.1/webhooks", None))

    written: dict[str, Any] = {}
    exec(copies["pytest"].replace("from receiver import", "from receiver.events import"), written)
    written["test_crawl_page"]()
    assert "--data-raw" in copies["curl"]
    assert all(text.replace("\n", "").isprintable() for text in copies.values())
    (_, _, _, _, _, condition) = shlex.split(copies["Command"])
    assert compile_expression(condition)(json.loads(body))
    assert parse_event(body).type == "crawl.page"


@pytest.mark.parametrize("key", ["sha256:1", "a\\u202e"])
async def test_one_without_an_id_of_the_service_is_told_by_its_moment(opened: Opened, key: str) -> None:
    """Its job alone would run the whole job again."""
    stored = delivery(key)
    await opened.add(stored)
    detail = await opened.reports.detail(stored.key)

    (command,) = [text for name, text in copies_of(detail, "http://127.0.0.1", None) if name == "Command"]

    assert command == ("receiver replay --since 2026-08-04T12:00:00+00:00 --until 2026-08-04T12:00:00.000001+00:00")
