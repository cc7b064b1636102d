"""Any request at all: headers, bodies, signatures, methods and chunks that nobody planned for."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.app import Receiver
from receiver.core.deliveries import DeliveryFilter
from receiver.core.signing import sign
from receiver.settings import Settings
from tests.doubles import SECRET, Answer, OpenStore, ask, body_of

Raw = tuple[bytes, bytes]

CONFIGURED = {
    "secret": {"secrets": [SECRET]},
    "token": {"token_header": "X-Token", "tokens": ["tok-1"]},
    "both": {"secrets": ["other", SECRET], "token_header": "X-Token", "tokens": ["tok-1"]},
}
STATUSES = {200, 400, 401, 404, 405, 408, 413, 503}
MOST = 4_000

json_text = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
envelopes = st.builds(
    lambda kind, values: body_of(kind, **values),
    st.sampled_from(["crawl.page", "new.thing", "", "x" * 300]) | st.text(max_size=10),
    st.dictionaries(st.sampled_from(["id", "jobId", "webhookId", "success", "data", "metadata"]), json_text)
    | st.fixed_dictionaries({"webhookId": st.sampled_from("abc"), "data": json_text}),
)
bodies = st.one_of(
    envelopes, envelopes, envelopes, st.binary(max_size=60), st.sampled_from([b"x" * (MOST + 1), b"[" * 3_000])
)
header_names = st.sampled_from(
    [
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"x-token",
        b"x-firecrawl-signature",
        b"host",
        b"expect",
    ]
) | st.binary(max_size=12).map(bytes.lower)
soup = st.lists(st.tuples(header_names, st.binary(max_size=80)), max_size=5)


@st.composite
def cuts(draw: st.DrawFn, body: bytes) -> Sequence[bytes]:
    """Cut a body into pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(body)), max_size=4)))
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


@st.composite
def proofs(draw: st.DrawFn, body: bytes) -> list[Raw]:
    """Prove where a body comes from: rightly, nearly, or not at all."""
    right = sign(body, SECRET).encode()
    wrong = [right.upper(), right[:-1], right[7:], b"", sign(body + b" ", SECRET).encode(), right + b" "]
    signature = draw(st.sampled_from([right] * 12 + wrong))
    token = draw(st.sampled_from([b"tok-1"] * 6 + [b"tok-2", b"", b"TOK-1"]))
    chosen = draw(st.sampled_from(["signature"] * 3 + ["token"] * 3 + ["both"] * 6 + ["none"]))
    found: list[Raw] = []
    if chosen in ("signature", "both"):
        found.append((b"x-firecrawl-signature", signature))
    if chosen in ("token", "both"):
        found.append((b"x-token", token))
    return found


class Request:
    """One request, and whether it proves where it comes from."""

    def __init__(self, method: str, path: str, headers: list[Raw], body: bytes, chunks: Sequence[bytes]) -> None:
        self.method, self.path, self.headers, self.body, self.chunks = method, path, headers, body, chunks

    def __repr__(self) -> str:
        return f"Request({self.method!r}, {self.path!r}, {self.headers!r}, {self.body!r}, {self.chunks!r})"

    def authentic(self, configured: str) -> bool:
        """Judge by the rules of the design, apart from the code under test."""
        headers = dict(self.headers)
        signature, token = headers.get(b"x-firecrawl-signature"), headers.get(b"x-token")
        if configured != "token" and signature is not None:
            return signature == sign(self.body, SECRET).encode()
        return configured != "secret" and token == b"tok-1"


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Make a request up."""
    body = draw(bodies)
    before, proof, behind = draw(soup), draw(proofs(body)), draw(soup)
    return Request(
        draw(st.sampled_from(["POST"] * 20 + ["GET", "PUT", "HEAD", "", "pOST"])),
        draw(st.sampled_from(["/webhooks"] * 20 + ["/webhooks/", "/", "/readyz", "/\xff", "", "/webhooks/../x"])),
        before + proof + draw(st.sampled_from([[], [], [], behind])),
        body,
        draw(cuts(body)),
    )


async def answer(configured: str, made: Sequence[Request]) -> tuple[OpenStore, list[Answer]]:
    """Put all requests to one receiver at the same time."""
    store = OpenStore()
    app = Receiver(
        Settings(max_body=MOST, max_in_flight=100 * MOST, **CONFIGURED[configured]),  # type: ignore[arg-type]
        store=store,
    )
    async with app.lifespan():
        answers = await asyncio.gather(
            *[ask(app, one.method, one.path, headers=one.headers, chunks=one.chunks) for one in made]
        )
    return store, answers


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize("configured", CONFIGURED)
def test_any_request_is_answered_and_only_authentic_ones_are_kept(configured: str) -> None:
    """Never a 5xx but 503, never an exception, nothing stored that proves nothing, all that got a 200 is stored."""

    @given(st.lists(requests(), min_size=1, max_size=4))
    @example([Request("POST", "/webhooks", [(b"content-length", b"99999")], b"{}", [b"{}"])])
    def check(made: list[Request]) -> None:
        store, answers = asyncio.run(answer(configured, made))

        for got in answers:
            assert got.status in STATUSES
            assert got.status != 503
            assert got.headers[b"content-type"] == b"application/json"
            assert isinstance(got.content, dict)
        asyncio.run(check_kept(store, configured, made, answers))

    check()


async def check_kept(store: OpenStore, configured: str, made: Sequence[Request], answers: Sequence[Answer]) -> None:
    """Compare what is in the store with what was asked and answered."""
    details = [await store.detail(one.key) async for one in store.deliveries(DeliveryFilter())]
    stored = [detail.body for detail in details]
    quarantined = [one.body for one in store.state.quarantined.values()]
    authentic = [one.body for one in made if one.authentic(configured)]
    taken = [
        (one, got)
        for one, got in zip(made, answers, strict=True)
        if got.status == 200 and got.content.get("status") in ("accepted", "duplicate")
    ]

    assert {*stored, *quarantined} <= set(authentic)
    for one, got in taken:
        assert one.authentic(configured)
        assert one.body in stored or one.body in quarantined
        assert (await store.detail(got.content["id"])).summary.duplicates >= 0
    for one, got in zip(made, answers, strict=True):
        if got.status == 400:
            assert one.body in quarantined
        if got.status == 401:
            assert not one.authentic(configured)
    for key in {got.content["id"] for _, got in taken}:
        outcomes = [got.content["status"] for _, got in taken if got.content["id"] == key]
        assert outcomes.count("accepted") == 1
    requests = store.state.quarantined.values()
    for headers in [one.headers for one in details] + [one.headers for one in requests]:
        masked = {"x-firecrawl-signature"} if configured == "secret" else {"x-firecrawl-signature", "x-token"}
        assert {value for name, value in headers if name in masked} <= {"***"}
        assert SECRET not in {value for _, value in headers}
