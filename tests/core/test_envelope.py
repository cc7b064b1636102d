"""How a delivery is made of headers and body: its fields, its key, and its masked headers."""

import hashlib
import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.deliveries import Delivery
from receiver.core.envelope import MASK, mask_headers, read_envelope
from receiver.core.types import DeliveryKey
from receiver.errors import Malformed
from tests.doubles import NOON, body_of

SAMPLES = sorted(
    (entry.name, entry.read_bytes())
    for entry in (resources.files("receiver.service.samples")).iterdir()
    if entry.name.endswith(".json")
)
HEADERS = (("content-type", "application/json"),)


def read(body: bytes) -> Delivery:
    return read_envelope(HEADERS, body, received_at=NOON)


def sha(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@pytest.mark.parametrize(("name", "body"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_every_sample_is_an_envelope(name: str, body: bytes) -> None:
    """Type, job, webhook id and success are those of the JSON text. Body and headers stay as they arrived."""
    content = json.loads(body)
    delivery = read(body)

    assert delivery == Delivery(
        key=DeliveryKey(content.get("webhookId") or sha(body)),
        type=content["type"],
        job_id=content.get("id", content.get("jobId")),
        webhook_id=content.get("webhookId"),
        success=content.get("success"),
        received_at=NOON,
        headers=HEADERS,
        body=body,
    )


def test_there_are_samples() -> None:
    """Without samples the test above would prove nothing."""
    assert len(SAMPLES) >= 37


@pytest.mark.parametrize(
    ("content", "job_id"),
    [
        ({"id": "a"}, "a"),
        ({"jobId": "b"}, "b"),
        ({"id": "a", "jobId": "b"}, "a"),
        ({"id": None, "jobId": "b"}, "b"),
        ({"id": "", "jobId": "b"}, "b"),
        ({"id": 7}, "7"),
        ({"id": 0}, "0"),
        ({"id": -(2**62)}, str(-(2**62))),
        ({"id": 2**63}, None),
        ({"id": 1.5}, None),
        ({"id": True}, None),
        ({"id": {"x": 1}, "jobId": []}, None),
        ({}, None),
    ],
    ids=str,
)
def test_the_job_id_is_read_tolerantly(content: dict[str, Any], job_id: str | None) -> None:
    """It is `id`, or `jobId` in v0. A number is read as text."""
    assert read(body_of(**content)).job_id == job_id


@pytest.mark.parametrize(
    ("success", "expected"), [(True, True), (False, False), (None, None), ("true", None), (1, None), ([], None)]
)
def test_success_is_a_boolean_or_unknown(success: object, expected: bool | None) -> None:
    """Other values are not interpreted."""
    assert read(body_of(success=success)).success is expected


@pytest.mark.parametrize(
    "webhook_id",
    ["6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11", "webhook-123", "x", "a_b.c:d", "x" * 200],
)
def test_a_plain_webhook_id_is_the_key(webhook_id: str) -> None:
    """It is the public id of the delivery."""
    delivery = read(body_of(webhookId=webhook_id))

    assert delivery.key == delivery.webhook_id == webhook_id


@pytest.mark.parametrize(
    "webhook_id",
    [
        None,
        "",
        " ",
        "a b",
        "a/b",
        'a"b',
        "a\\b",
        "$(a)",
        "100%",
        "a\nb",
        "\x1b[31mred",
        "é",
        "\ud800",
        "x" * 201,
        "sha256:" + "0" * 64,
        "sha256:",
        5,
        True,
        ["x"],
        {"x": "y"},
    ],
    ids=repr,
)
def test_any_other_webhook_id_leaves_the_hash_as_key(webhook_id: object) -> None:
    """It would not be safe in URLs, shells and log lines, or would look like a hash."""
    body = body_of(webhookId=webhook_id)

    assert read(body).key == sha(body)


def test_a_key_by_hash_is_that_of_the_exact_bytes() -> None:
    """A body with one more space is another delivery."""
    assert read(body_of()).key != read(body_of() + b" ").key


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("crawl.page", "crawl.page"),
        ("new.family.of.events", "new.family.of.events"),
        ("type with spaces", "type with spaces"),
        ("évènement", "évènement"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\r\nb", "a\\r\\nb"),
        ("a\0b", "a\\x00b"),
        ("a\ud800b", "a\\ud800b"),
        ("a\u202eb", "a\\u202eb"),
        ("x" * 500, "x" * 200),
        ("\n" * 500, ("\\n" * 500)[:200]),
    ],
    ids=ascii,
)
def test_types_are_made_readable(kind: str, stored: str) -> None:
    """Stores and terminals take them: short, without control characters and lone surrogates."""
    assert read(body_of(kind)).type == stored


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"not json", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested too deeply to be read"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply to be read"),
        (b'{"type":"x","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply to be read"),
        (rb'{"type":"\ud83d","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply to be read"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'"crawl.page"', "not a JSON object"),
        (b"1", "not a JSON object"),
        (b"{}", "no `type`"),
        (b'{"type":null}', "no `type`"),
        (b'{"type":""}', "no `type`"),
        (b'{"type":5}', "no `type`"),
        (b'{"type":["crawl.page"]}', "no `type`"),
        (b'{"Type":"crawl.page"}', "no `type`"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_other_bodies_are_malformed(body: bytes, words: str) -> None:
    """The message does not quote the body."""
    with pytest.raises(Malformed, match=words):
        read(body)


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"type":"x","webhookId":"w"}',
        rb'{"type":"x","webhookId":"w","data":["\ud83d"]}',
        b'{"type":"x","webhookId":"w","n":' + b"9" * 5_000 + b"}",
        b'{"type":"x","webhookId":"w","n":' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"type":"x","webhookId":"w","n":1e999}',
        b'{"type":"y","type":"x","webhookId":"w"}',
        b'\n\n{ "type" : "x" ,\t"webhookId":"w"}\r\n',
    ],
    ids=["BOM", "lone surrogate", "huge number", "deep", "overflow", "key twice", "space"],
)
def test_odd_json_is_an_envelope(body: bytes) -> None:
    """Nothing that the sender can make is refused."""
    delivery = read(body)

    assert (delivery.type, delivery.key, delivery.body) == ("x", "w", body)


@given(
    st.dictionaries(
        st.sampled_from(["type", "id", "jobId", "webhookId", "success", "data", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    )
)
def test_every_object_is_an_envelope_or_malformed(content: dict[str, Any]) -> None:
    """Every store and terminal takes the fields of the delivery."""
    body = json.dumps(content).encode()
    try:
        delivery = read(body)
    except Malformed:
        assert not content.get("type") or not isinstance(content["type"], str)
        return
    for text in (delivery.key, delivery.type, delivery.job_id or "", delivery.webhook_id or ""):
        assert text.isprintable()
        assert len(text.encode()) <= 800
    assert delivery.key.isascii()


@pytest.mark.parametrize(
    "name",
    [
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"x-api-key",
        b"x-auth-token",
        b"x-firecrawl-signature",
        b"x-own",
    ],
)
def test_credentials_are_masked_by_name(name: bytes) -> None:
    """These are the well-known names, and the configured ones."""
    assert mask_headers([(name, b"hidden")], frozenset({b"x-own"})) == ((name.decode(), MASK),)


def test_credentials_are_masked_by_value() -> None:
    """This covers a header under any name."""
    headers = [(b"x-one", b"s3cret"), (b"x-two", b"harmless"), (b"x-three", "clé".encode())]

    masked = mask_headers(headers, values=frozenset({b"s3cret", "clé".encode()}))

    assert masked == (("x-one", MASK), ("x-two", "harmless"), ("x-three", MASK))


@given(st.lists(st.tuples(st.binary(max_size=10), st.binary(max_size=20)), max_size=6))
def test_other_headers_are_kept_byte_by_byte(headers: list[tuple[bytes, bytes]]) -> None:
    """Their order, repetitions and bytes stay, as Latin-1."""
    headers = [(b"x-" + name + b"-x", value) for name, value in headers]

    masked = mask_headers(headers)

    assert [(name.encode("latin-1"), value.encode("latin-1")) for name, value in masked] == headers
