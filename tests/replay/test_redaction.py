"""Tests that redaction hides all that it promises, and changes nothing else in a body."""

import hashlib
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver import parse_event
from receiver.core.deliveries import Delivery
from receiver.core.envelope import load_json, read_envelope
from receiver.core.types import DeliveryKey
from receiver.replay.bundles.format import BundleWriter, Entry, Header, read_bundle
from receiver.replay.bundles.redaction import redacted, redacted_body
from receiver.service.samples import encode, load_sample, sample_names
from tests.core.test_lenient_json import json_values
from tests.doubles import NOON, delivery

ODD_TEXTS = [b"", b"nonsense", b"\xff{}", b'{"type":"a"', '{"a":"secret"}'.encode("utf-16"), b"\0\0"]


def texts_of(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], str]:
    """Return every text in a JSON value with its place."""
    if isinstance(value, str):
        return {path: value}
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        return {place: text for step, item in steps for place, text in texts_of(item, (*path, step)).items()}
    return {}


@pytest.mark.parametrize("name", sample_names())
def test_a_redacted_sample_is_read_as_the_same_kind_of_event(name: str) -> None:
    """Type, ids, outcome and the number of items stay. Each text keeps its place and its length."""
    body = encode(load_sample(name))

    hidden = redacted_body(body)

    before, after = parse_event(body), parse_event(hidden)
    assert type(after) is type(before)
    assert (after.type, after.job_id, after.webhook_id, after.success, len(after.data)) == (
        (before.type, before.job_id, before.webhook_id, before.success, len(before.data))
    )
    places, hidden_places = texts_of(load_json(body)), texts_of(load_json(hidden))
    assert {place: len(text) for place, text in places.items()} == (
        {place: len(text) for place, text in hidden_places.items()}
    )
    assert len(hidden) <= len(body)


def test_the_contents_of_a_page_are_hidden() -> None:
    """These are its text, title, addresses and meta tags, and the configured metadata."""
    payload = load_sample("crawl.page")
    payload["data"][0] |= {"html": "<b>x y</b>", "rawHtml": "<i>", "json": {"price": 18, "in stock": True}}

    page = json.loads(redacted_body(encode(payload)))["data"][0]

    assert set(page["markdown"] + page["html"] + page["rawHtml"] + page["metadata"]["title"]) == {"x"}
    assert page["links"][0] == "https://xxxxxxxxxxxxxxxx"
    assert page["metadata"]["contentType"] == "x" * len("text/html; charset=utf-8")
    assert page["metadata"]["scrapeId"] == "019f2c10-000b-7a00-8b00-000000015445"
    assert (page["metadata"]["statusCode"], page["metadata"]["cacheState"]) == (200, "miss")
    assert page["json"] == {"price": 11, "in stock": True}


def test_extracted_values_are_hidden_including_numbers() -> None:
    """Values that look like an id or a word of the service are hidden too."""
    extraction = {"status": "new", "personId": "019f2c10-000b-7a00-8b00-000000015445", "salary": -98765.25e1}
    for payload in (
        {"type": "extract.completed", "data": [{"data": extraction, "tokensBilled": 77}]},
        {"type": "agent.completed", "data": [{"data": [[extraction]], "creditsUsed": 77}]},
        {"type": "monitor.page", "data": [{"n": 77, "diff": {"json": {"a": {"previous": extraction}}}}]},
    ):
        hidden = redacted_body(json.dumps(payload).encode()).decode()

        assert "new" not in hidden.replace("newest", "")
        assert "019f2c10" not in hidden
        assert "9876" not in hidden
        assert "-111111.1" in hidden
        assert ": 77" in hidden


def test_everything_else_stays_byte_for_byte() -> None:
    """This includes white space, the order of fields, repeated fields, and the form of numbers."""
    body = b'\xef\xbb\xbf{ "type" :"a.b",\r\n\t"n": [1.50E+2, -0, NaN],"n":{}, "\\u0041":"\\ud83d\\n" ,"e":""}'

    assert redacted_body(body) == body.replace(b'"\\ud83d\\n"', b'"xx"')


@pytest.mark.parametrize("body", ODD_TEXTS)
def test_a_body_that_is_not_json_is_hidden_completely(body: bytes) -> None:
    """It makes no difference what the body contains."""
    assert redacted_body(body) == b"x" * len(body)


def test_headers_keep_their_names_and_harmless_values() -> None:
    """Addresses of machines and values that a proxy adds are hidden."""
    headers = (
        ("content-type", "application/json"),
        ("host", "hooks.example.com"),
        ("x-forwarded-for", "192.0.2.7"),
    )

    assert redacted(delivery(headers=headers)).headers == (
        ("content-type", "application/json"),
        ("host", "x" * 17),
        ("x-forwarded-for", "x" * 9),
    )


def test_an_unusual_type_or_id_is_hidden_too() -> None:
    """It could contain any text."""
    body = b'{"type":"my secret","id":"another secret","webhookId":"a third secret"}'
    one = read_envelope((), body, received_at=NOON)

    hidden = redacted(one)

    assert hidden.key == one.key
    assert (hidden.type, hidden.job_id, hidden.webhook_id) == ("x" * 9, "x" * 14, "x" * 14)
    assert b"secret" not in hidden.body


def test_a_redacted_delivery_keeps_its_key_through_a_bundle() -> None:
    """This holds even if the key is the digest of the old body. When it is written again, the line is the same."""
    body = b'{"type":"crawl.page","data":[{"markdown":"secret"}]}'
    key = DeliveryKey("sha256:" + hashlib.sha256(body).hexdigest())
    hidden = redacted(delivery(key, body=body)._replace(webhook_id=None))

    data = bundled(hidden)
    (entry,) = read_bundle(io.BytesIO(data), max_body=1000).entries

    assert isinstance(entry, Entry)
    assert entry.delivery == hidden
    assert entry.delivery.key == key
    assert bundled(entry.delivery) == data


def bundled(one: Delivery) -> bytes:
    """Return a redacted bundle of one delivery."""
    stream = io.BytesIO()
    writer = BundleWriter(stream, Header(made_at=NOON, count=1, redacted=True), pack=False)
    writer.add(one, 0)
    writer.finish()
    return stream.getvalue()


SECRET = "Zq7Jw"
"""Letters that occur in no name and no replacement text."""
secrets = st.builds("{}{}{}".format, st.text(max_size=8), st.just(SECRET), st.text(max_size=8)) | st.sampled_from(
    [f"https://{SECRET}.example", f"{SECRET}\ud83d"]
)
secret_values = st.recursive(
    secrets | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "status", "id", "scrapeId", "cachedAt", "data", "json", "markdown", "a b", "", "x\\"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["data", "error", "metadata", "url", "new"]), secret_values),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_no_text_of_a_body_is_left(payload: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """The place of the text, its encoding and the models make no difference."""
    written = json.dumps({"type": "crawl.page"} | payload, ensure_ascii=ascii_only, indent=indent)
    body = written.encode("utf-8", "surrogatepass")

    hidden = redacted_body(body)

    assert SECRET.encode() not in hidden
    assert redacted_body(hidden) == hidden


@given(json_values)
def test_a_redacted_body_is_json_of_the_same_form(value: Any) -> None:
    """It can be parsed, with the same names and the same kinds of values."""

    def form(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: form(item) for name, item in value.items()}
        if isinstance(value, list):
            return [form(item) for item in value]
        return len(value) if isinstance(value, str) else type(value)

    hidden = load_json(redacted_body(json.dumps(value).encode()))

    assert form(hidden) == form(value)


@given(st.binary(max_size=60))
def test_any_bytes_can_be_redacted(body: bytes) -> None:
    """No bytes cause an exception."""
    assert len(redacted_body(body)) <= len(body)
