"""Advice about secrets and tokens that could be guessed."""

from pathlib import Path

import pytest

from receiver.settings import short_secret_advice
from receiver.settings.model import GivenSettings
from tests.process.harness import Deployment

LONG = "s" * 14


@pytest.mark.parametrize(
    "usual",
    ["bXkgMTYgcmFuZG9tIGJ5dA", "5f1c77aa03b94d0e8c11f2e96d3a40b7", "0b8e6f2c-1f8a-4f53-9f52-6a1d7c1f9e30", LONG],
)
def test_a_secret_of_a_usual_length_gets_no_advice(usual: str) -> None:
    """Also the shortest that are usual: 16 random bytes in base64, in hex, or as a UUID."""
    settings = GivenSettings(secrets=(usual,), tokens=(usual,), token_header="X-Token")

    assert short_secret_advice(settings) == []


@pytest.mark.parametrize("short", ["x", "changeme", "s" * 13, "é" * 6])
def test_a_short_secret_gets_advice_that_does_not_show_it(short: str) -> None:
    """The setting is named, and how many of its values are short."""
    [told] = short_secret_advice(GivenSettings(secrets=(LONG, short)))

    assert told == (
        "RECEIVER_SECRETS has 1 secret of less than 14 bytes: attackers could guess it and send deliveries; "
        "use the webhook secret of your account"
    )


def test_short_tokens_are_counted_apart_from_secrets() -> None:
    """A sender that knows one of them needs no secret."""
    settings = GivenSettings(secrets=("qq",), tokens=("q7", "zz"), token_header="X-Token")

    secrets, tokens = short_secret_advice(settings)

    assert secrets.startswith("RECEIVER_SECRETS has 1 secret ")
    assert tokens.startswith("RECEIVER_TOKENS has 2 tokens of less than 14 bytes: attackers could guess them")


def test_serve_warns_of_it_once(tmp_path: Path) -> None:
    """When it starts, with the same text as `check`; here its address is wrong, so that it ends."""
    done = Deployment(tmp_path, secrets="qq", host="192.0.2.1").run("serve")

    assert done.stderr.count("secret_too_short") == 1
    assert "RECEIVER_SECRETS has 1 secret of less than 14 bytes" in done.stderr
    assert "qq" not in done.stderr
