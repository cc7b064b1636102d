"""Bodies for the fuzz proof: deliveries as the service sends them, and what resembles them."""

import json
import random
from collections.abc import Callable
from typing import Any

from receiver.core.envelope import NotJson, load_json

_TYPES = (
    "crawl.page",
    "crawl.completed",
    "batch_scrape.page",
    "monitor.check.completed",
    "agent.action",
    "new.thing",
)
_NAMES = ("type", "id", "jobId", "webhookId", "success", "data", "metadata", "error")
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, -(2**70), 1e308, float("nan"), float("-inf"), "", " ", "x" * 300),
    *("\ud800", "\udc00\ud800", "\x00\x1b[31m", "\u202e", "é😀", "../..", "sha256:" + "0" * 64, "a b"),
    *([], {}, [None], [[[]]], {"": {}}, [{}] * 50, {"metadata": 1}, {"diff": {"json": {"files": [{}]}}}),
)
_ODD_JSON = (
    *(b"NaN", b"-Infinity", b"1e999999", b"-0", b"01", b"+1", b"1.", b".5", b"0x1", b"nul", b"True", b"'a'"),
    *(rb'"\ud800"', rb'"\udfff\ud800"', rb'"\u12"', rb'"\x"', b'"\x00"', b'"\x7f"', b'"\xff"', b'"\xed\xa0\x80"'),
    *(
        b'"\xf4\x90\x80\x80"',
        b'"',
        b"[",
        b"}",
        b"[,]",
        b'{"a"}',
        b'{"a":1,"a":2}',
        b"/**/1",
        b"9" * 400,
        b"9" * 5_000,
    ),
)
_DEPTHS = (5, 100, 190, 210, 600, 1_500, 20_000)
"""Not near a thousand: there Python's limit depends on the frames around the parser."""


def is_envelope(body: bytes) -> bool:
    """Tell whether a body is a JSON object with a `type`, by a parser that builds all of it."""
    try:
        content = load_json(body)
    except NotJson:
        return False
    return isinstance(content, dict) and isinstance(kind := content.get("type"), str) and kind != ""


def good_body(rng: random.Random) -> bytes:
    """Return a body that no other has, as the service sends it; one in five has no webhookId."""
    return json.dumps(_content(rng)).encode()


def odd_body(rng: random.Random) -> bytes:
    """Return a body that resembles a good one, or does not."""
    return rng.choice(_ODD)(rng)


def same_id(rng: random.Random, body: bytes) -> bytes:
    """Return another body with the webhookId of a good one, if that has one."""
    return json.dumps(json.loads(body) | {"error": f"changed {rng.getrandbits(64)}"}).encode()


def _content(rng: random.Random) -> dict[str, Any]:
    content: dict[str, Any] = {
        "success": True,
        "type": rng.choice(_TYPES),
        "id": f"job-{rng.randrange(1_000)}",
        "webhookId": f"{rng.getrandbits(128):032x}",
        "data": [{"markdown": "é" * rng.randrange(40), "metadata": {"sourceURL": "https://example.com/"}}],
        "n": f"{rng.getrandbits(64):x}",
    }
    if rng.random() < 0.2:
        del content["webhookId"]
    return content


def _wrong_types(rng: random.Random) -> bytes:
    content = _content(rng)
    for name in rng.sample(_NAMES, rng.randint(1, 4)):
        content[name] = rng.choice(_ODD_VALUES)
    return json.dumps(content, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _changed_bytes(rng: random.Random) -> bytes:
    body = bytearray(good_body(rng))
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(body))
        end = min(len(body), start + rng.choice((0, 1, 1, 8)))
        body[start:end] = rng.choice(
            (b"", rng.randbytes(1), rng.choice(b'"\\{}[]:,\x00\xff'.split()), rng.randbytes(9))
        )
        if not body:
            break
    return bytes(body)


def _odd_json(rng: random.Random) -> bytes:
    return _with_data(rng, rng.choice(_ODD_JSON))


def _nested(rng: random.Random) -> bytes:
    [depth] = rng.choices(_DEPTHS, (8, 8, 8, 8, 4, 4, 1))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return _with_data(rng, opening * depth + b"0" + closing * depth)


def _many(rng: random.Random) -> bytes:
    item = rng.choice((b"{}", b"[]", b'""', b"0", b"NaN", rb'"\ud83d"', b'{"metadata":{}}', b'{"a":1}'))
    [count] = rng.choices((10, 100, 1_000, 40_000), (50, 40, 9, 1))
    return _with_data(rng, b"[" + b",".join([item] * count) + b"]")


def _with_data(rng: random.Random, data: bytes) -> bytes:
    padding = b" " * rng.choice((0,) * 9 + (70_000,))  # long bodies are read by another parser
    kind = rng.choice(_TYPES).encode()
    return b'{"type":"%b","n":"%x","data":%b%b}' % (kind, rng.getrandbits(64), data, padding)


def _cut(rng: random.Random) -> bytes:
    body = good_body(rng)
    return body[: rng.randrange(len(body))]


def _other_encoding(rng: random.Random) -> bytes:
    return good_body(rng).decode().encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")))


def _no_object(rng: random.Random) -> bytes:
    number = rng.getrandbits(64)
    return rng.choice((b"", b" ", b"null %d" % number, b'["%d"]' % number, rng.randbytes(40), b"%d" % number))


_ODD: tuple[Callable[[random.Random], bytes], ...] = (
    *(_wrong_types, _wrong_types, _changed_bytes, _changed_bytes),
    *(_odd_json, _nested, _many, _cut, _other_encoding, _no_object),
)
