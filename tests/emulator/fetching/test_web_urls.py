"""Parts of URLs."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.fetching.web_urls import (
    origin_of,
    registrable_domain,
    request_url,
    split_web_url,
    without_credentials,
)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("docs.acme.co.uk", "acme.co.uk"),
        ("acme.com", "acme.com"),
        ("a.b.acme.test", "acme.test"),
        ("b.github.io", "b.github.io"),
        ("localhost", "localhost"),
        ("co.uk", "co.uk"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_the_domain_that_was_registered(host: str, domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of public suffixes is in a package, and never fetched."""
    monkeypatch.delattr(socket, "getaddrinfo")

    assert registrable_domain(host) == domain


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://Docs.Acme.test:443/a", "https://docs.acme.test"),
        ("http://u:p@acme.test:8080?x", "http://acme.test:8080"),
        ("http://[::1]:81/", "http://[::1]:81"),
        ("http://acme.test./", "http://acme.test"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    parts = split_web_url(url)

    assert parts is not None
    assert origin_of(parts) == origin


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://acme.test", "https://acme.test/"),
        ("https://acme.test?q=1", "https://acme.test/?q=1"),
        ("https://acme.test/a%2Fb%3Fc%23d?e=%26#f", "https://acme.test/a%2Fb%3Fc%23d?e=%26#f"),
        ("https://acme.test/%2541%00%0A", "https://acme.test/%2541%00%0A"),
        ("https://bücher.test/ü?ö=ä b", "https://xn--bcher-kva.test/%C3%BC?%C3%B6=%C3%A4%20b"),
        ("https://u:p@acme.test/#/x", "https://acme.test/#/x"),
    ],
)
def test_urls_as_requests_carry_them(url: str, sent: str) -> None:
    assert str(request_url(url)) == sent


@given(text=st.text(max_size=50))
def test_any_text_is_a_url_or_none(text: str) -> None:
    for url in (text, f"http://{text}", f"https://u:s3cret@{text}"):
        made = request_url(url)
        assert made is None or "s3cret" not in str(made)
        assert without_credentials(without_credentials(url)) == without_credentials(url)
