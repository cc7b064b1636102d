"""Signatures, compared with literals that other programs have made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.signing import sign, token_matches, verify

# Vectors A and B were computed by another program, C is from a public sender's test.
A = (
    "example-secret-1",
    b'{"success":true,"type":"crawl.started","id":"019f2c10-0000-7000-8000-000000000001",'
    b'"webhookId":"6f1d3c52-8a54-4b1e-9d0e-2f6f0a7f9a11","data":[],"metadata":{}}',
    "bc7b05c74c91137db419a32ed5b7241ed5cd05877a5e688b056271b763380f0b",
)
B = (
    "clé-secrète-2",
    '{"success":false,"type":"batch_scrape.page","id":"019f2c10-0000-7000-8000-000000000002",'
    '"webhookId":"0b9c7b1e-54a7-4c6e-8f0b-7d1f5f2f6c22","data":[{"metadata":{"sourceURL":"https://example.com/café"}}],'
    '"error":"Délai dépassé ⏱","metadata":{"équipe":"données"}}'.encode(),
    "aed25d4b82ad98312218f0ff5089825fb5708b7478dd520fa1d813c9ff3a0ac9",
)
C = (
    "secret",
    b'{"success":true,"type":"crawl.page","id":"crawl-123","webhookId":"webhook-123","data":[]}',
    "29729c39fd5f57c6f4d50c86dd20256a5d77b7b39d19531c17805163fb830d40",
)
# printf '{"type":"crawl.page"}\n' | openssl dgst -sha256 -hmac 'whsec_test'
D = ("whsec_test", b'{"type":"crawl.page"}\n', "226011f1bb5722e35696a43d9559d1344f3c046b51dfd5a834561e90538fb91d")
# printf '\000\377\376 not text' | openssl dgst -sha256 -hmac 'a secret with spaces, and a comma'
E = (
    "a secret with spaces, and a comma",
    b"\0\xff\xfe not text",
    "804bab90dd939cb50d8304ab032bb8135231953b80158ace88d26466ff5982f5",
)
# printf '' | openssl dgst -sha256 -hmac 'k'
F = ("k", b"", "8bb990c40a7d61cb97597a942125025be50ac8beb74436e3735b98893a7f6620")

vectors = pytest.mark.parametrize(("secret", "body", "digest"), [A, B, C, D, E, F], ids="ABCDEF")


def test_the_vectors_are_as_long_as_they_were_published() -> None:
    """An editor may have changed a body."""
    assert (len(A[1]), len(B[1])) == (158, 268)


@vectors
def test_signatures_are_those_of_the_vectors(secret: str, body: bytes, digest: str) -> None:
    """They are HMAC-SHA256 over the raw bytes. The key is the UTF-8 text of the secret."""
    assert sign(body, secret) == f"sha256={digest}"
    assert verify(body, f"sha256={digest}", [secret])


@vectors
def test_any_of_several_secrets_may_fit(secret: str, body: bytes, digest: str) -> None:
    """During a rotation there are two, in any order."""
    assert verify(body, f"sha256={digest}", ["old", secret])
    assert verify(body, f"sha256={digest}", [secret, "new", "newer"])
    assert not verify(body, f"sha256={digest}", ["old", "new"])
    assert not verify(body, f"sha256={digest}", [])


def test_one_signature_leaves_nothing_for_the_next() -> None:
    """Secrets and bodies take turns, and come again."""
    for _ in range(3):
        for secret, body, digest in (A, C, B, F, C, E, D, A):
            assert sign(body, secret) == f"sha256={digest}"


@vectors
def test_one_changed_byte_is_refused(secret: str, body: bytes, digest: str) -> None:
    """It may be in the body, at its end, or in the signature."""
    changed = ("0" if digest[0] != "0" else "1") + digest[1:]

    assert not verify(body + b" ", f"sha256={digest}", [secret])
    assert not verify(body[:-1] + b"~", f"sha256={digest}", [secret])
    assert not verify(body, f"sha256={changed}", [secret])


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "sha256=",
        C[2],
        f"sha256={C[2].upper()}",
        f"SHA256={C[2]}",
        f"sha1={C[2]}",
        f"sha512={C[2]}",
        f"sha256:{C[2]}",
        f"sha256={C[2]}\n",
        f" sha256={C[2]}",
        f"sha256={C[2]} ",
        f"sha256={C[2]}0",
        f"sha256={C[2][:-1]}",
        f"sha256={C[2]},sha256={C[2]}",
        f"v1=x,sha256={C[2]}",
        "sha256=" + "g" * 64,
        "sha256=" + "\u0660" * 64,
        "sha256=" + "\xe9" * 64,
        "\ud800",
        "\0" * 71,
    ],
)
def test_anything_but_the_exact_form_is_refused(signature: str) -> None:
    """Such as upper case, other algorithms, lists and spaces. None of them raises."""
    secret, body, _ = C

    assert not verify(body, signature, [secret])


@given(st.text(max_size=80), st.binary(max_size=80))
def test_no_signature_text_raises(signature: str, body: bytes) -> None:
    """A stranger may put anything into the header."""
    assert not verify(body, signature, ["k", "clé"])


@given(st.binary(max_size=200), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_a_signature_of_ours_is_verified(body: bytes, secret: str) -> None:
    """This holds for every body and every secret."""
    assert verify(body, sign(body, secret), [secret])


@pytest.mark.parametrize(
    ("token", "matches"),
    [
        ("tok-1", True),
        ("tok-2", True),
        ("cl\u00c3\u00a9", True),  # "clé" in UTF-8, as a header is decoded
        ("clé", False),
        ("", False),
        ("tok", False),
        ("tok-1 ", False),
        ("TOK-1", False),
        ("tok-1,tok-2", False),
        ("\u20ac", False),
    ],
)
def test_a_token_is_compared_as_a_whole(token: str, matches: bool) -> None:
    """It may be any of several."""
    assert token_matches(token, ["tok-1", "tok-2", "clé"]) is matches


def test_no_token_matches_when_none_is_configured() -> None:
    """An empty token does not match either."""
    assert not token_matches("", [])
