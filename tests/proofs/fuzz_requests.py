"""Requests for the fuzz proof: complete ones, whose answer is known before, and broken ones."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from receiver.core.signing import sign
from tests.process.wire import SECRET
from tests.proofs.fuzz_bodies import good_body, is_envelope, odd_body

MAX_BODY = 2_000_000
"""The receiver's limit in this proof."""
_FORGED = "sha256=" + "0" * 64
_LENGTHS = (b"-1", b"+5", b"5, 5", b"5, 6", b"0x5", b"", b"9" * 30, b"%d" % 2**64, b"1 2", b"\xb2")
_CHUNKS = (
    b"g\r\n",
    b"-1\r\n",
    b"fffffffffffffffff\r\n",
    b"5\r\nabc",
    b"\r\n",
    b"0\r\nX: " + b"a" * 70_000,
    b"5;" + b"x" * 70_000,
)
_LINES = (
    *(
        b"POST /webhooks HTTP/2.0",
        b"POST /webhooks HTTP/1.",
        b"POST  /webhooks HTTP/1.1",
        b"POST /webhooks",
        b"POST",
    ),
    *(
        b"PRI * HTTP/2.0\r\n\r\nSM",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 40,
        b"GET / HTTP/0.9",
    ),
    *(b"POST /" + b"a" * 70_000 + b" HTTP/1.1", b"P\xffST / HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"post / HTTP/1.1"),
)
_HEADERS = (
    *(b"Host : a", b" folded: 1", b"X\x00: 1", b"X: a\x00b", b": no name", b"no colon", b"X: " + b"a" * 80_000),
    *(b"\r\n".join([b"X-%d: 1" % number for number in range(9_000)]), b"Transfer-Encoding: gzip, chunked"),
    *(
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Expect: 200-no",
    ),
    *(b"Content-Length: 5\r\nContent-Length: 6", b"Transfer-Encoding: xchunked", b"Content-Encoding: gzip"),
)


class Ending(Enum):
    """What the client does when it has sent everything."""

    READ = "read the answers"
    END = "say that nothing more comes, and read"
    RESET = "reset the connection"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and what its answer has to be.

    `status` is None if any answer without a fault of the receiver is right, and also none. `body` is what a 200
    would acknowledge, or what a 400 would put into quarantine.
    """

    raw: bytes
    status: int | None
    body: bytes | None = None
    closes: bool = False
    ending: Ending = Ending.READ

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the body."""
        return hashlib.sha256(self.body or b"").digest()


def delivery(rng: random.Random, body: bytes, *, is_good: bool) -> Request:
    """Return a complete authentic request with this body; its headers and its framing vary."""
    headers = [f"X-Firecrawl-Signature: {sign(body, SECRET)}".encode(), *_more_headers(rng)]
    closes = False
    version = b"1.1"
    if rng.random() < 0.05:
        closes = True
        version, more = rng.choice(((b"1.0", []), (b"1.1", [b"Connection: close"])))
        headers += more
    path = rng.choice((b"/webhooks", b"/webhooks", b"/webhooks/", b"/webhooks?a=%2F"))
    raw = _framed(rng, b"POST %b HTTP/%b" % (path, version), headers, body, may_chunk=version == b"1.1")
    return Request(raw, 200 if is_good else 400, body, closes)


def complete(rng: random.Random) -> Request:
    """Return a complete request with a new body."""
    chosen = rng.random()
    if chosen < 0.5:
        return delivery(rng, good_body(rng), is_good=True)
    body = odd_body(rng)
    if chosen < 0.85:
        return delivery(rng, body, is_good=is_envelope(body))
    if chosen < 0.92:
        signature = rng.choice((_FORGED, "", "sha256=", "0" * 64, sign(body + b" ", SECRET), sign(body, "other")))
        header = f"X-Firecrawl-Signature: {signature}".encode()
        return Request(_framed(rng, b"POST /webhooks HTTP/1.1", [header], body), 401)
    if chosen < 0.94:
        return Request(_framed(rng, b"POST /webhooks HTTP/1.1", [], body), 401)
    if chosen < 0.97:
        path = rng.choice(
            (b"/", b"/webhook", b"/webhooks/a", b"//webhooks", b"/%ff", b"/webhooks%00", b"/healthz/a")
        )
        return Request(_framed(rng, b"POST %b HTTP/1.1" % path, [], body), 404)
    method = rng.choice((b"GET", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"PROPFIND"))
    return Request(_framed(rng, b"%b /webhooks HTTP/1.1" % method, [], body), 405)


def broken(rng: random.Random) -> Request:
    """Return a request that is no request, that ends too early, or whose client does not wait for the answer."""
    whole = delivery(rng, good_body(rng), is_good=True)
    ending = rng.choice(tuple(Ending)[1:])
    match rng.randrange(8):
        case 0:
            return Request(whole.raw[: rng.randrange(len(whole.raw))], None, whole.body, True, ending)
        case 1:
            return Request(whole.raw, None, whole.body, True, Ending.RESET)
        case 2:
            raw = rng.choice(_LINES) + rng.choice((b"\r\n\r\n", b"\r\nHost: a\r\n\r\n", b"\n\n", b""))
        case 3:
            raw = whole.raw.replace(b"\r\n", b"\r\n" + rng.choice(_HEADERS) + b"\r\n", 1)
        case 4:
            raw = _head(b"POST /webhooks HTTP/1.1", [_signed(whole), b"Content-Length: " + rng.choice(_LENGTHS)])
        case 5:
            large = [b"X-Large: %030000d" % rng.getrandbits(64)] if rng.random() < 0.5 else []
            head = _head(b"POST /webhooks HTTP/1.1", [_signed(whole), b"Transfer-Encoding: chunked", *large])
            raw = head + rng.choice((b"", b"3\r\nabc\r\n")) + rng.choice(_CHUNKS)
        case 6:
            both = [_signed(whole), b"Content-Length: 7", b"Transfer-Encoding: chunked"]
            raw = _head(b"POST /webhooks HTTP/1.1", both) + b"".join(_chunks(rng, whole.body or b"")) + whole.raw
        case _:
            raw = _changed(rng, whole.raw)
    return Request(raw, None, whole.body, True, ending)


def wrong_head(rng: random.Random) -> Request:
    """Return a request that has to be refused before its body, and that closes the connection."""
    body = good_body(rng)
    announced = b"Content-Length: %d" % (MAX_BODY + 1)
    raw, status = rng.choice(
        (
            (_head(b"POST /webhooks HTTP/1.1", [f"X-Firecrawl-Signature: {_FORGED}".encode(), announced]), 413),
            (_framed(rng, b"POST /webhooks HTTP/1.1", [b"Host: b"], body), 400),
            (_framed(rng, b"POST /webhooks HTTP/1.1", [], body).replace(b"Host: receiver.test\r\n", b"", 1), 400),
        )
    )
    return Request(raw, status, closes=True)


def _signed(whole: Request) -> bytes:
    return f"X-Firecrawl-Signature: {sign(whole.body or b'', SECRET)}".encode()


def _changed(rng: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        changed[at : at + rng.randrange(3)] = rng.choice((b"", b"\r", b"\n", b"\0", b" ", b":", rng.randbytes(2)))
    return bytes(changed)


def _more_headers(rng: random.Random) -> Iterator[bytes]:
    if rng.random() < 0.2:
        for _ in range(rng.choice((1, 3, 30))):
            yield b"X-%x: %b" % (rng.getrandbits(16), rng.choice((b"", b"a" * 300, b"\xe9\xff", b"a\tb", b'"; \\')))
    if rng.random() < 0.05:
        yield rng.choice((b"Upgrade: h2c\r\nConnection: Upgrade", b"Upgrade: websocket", b"Expect: 100-continue"))


def _framed(rng: random.Random, line: bytes, headers: list[bytes], body: bytes, *, may_chunk: bool = True) -> bytes:
    if may_chunk and rng.random() < 0.15:
        trailer = rng.choice((b"0\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", b"000;a=b\r\n\r\n"))
        return _head(line, [*headers, b"Transfer-Encoding: chunked"]) + b"".join(_chunks(rng, body)) + trailer
    return _head(line, [*headers, b"Content-Length: %d" % len(body)]) + body


def _chunks(rng: random.Random, body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        part = body[start : start + rng.choice((1, 7, 100, 5_000, 200_000))] if start else body[:1]
        yield b"%x%b\r\n%b\r\n" % (len(part), rng.choice((b"", b";a=1", b';a="b"')), part)
        start += len(part)


def _head(line: bytes, headers: list[bytes]) -> bytes:
    return b"\r\n".join([line, b"Host: receiver.test", *headers, b"", b""])
