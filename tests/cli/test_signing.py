"""`receiver sign` and `receiver verify`, run as a user runs them."""

import io
import os
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run

# Vector B of the service's documentation, checked with `openssl dgst -sha256 -hmac`.
SECRET = "clé-secrète-2"
BODY = (
    '{"success":false,"type":"batch_scrape.page","id":"019f2c10-0000-7000-8000-000000000002",'
    '"webhookId":"0b9c7b1e-54a7-4c6e-8f0b-7d1f5f2f6c22",'
    '"data":[{"metadata":{"sourceURL":"https://example.com/café"}}],"error":"Délai dépassé ⏱",'
    '"metadata":{"équipe":"données"}}'
).encode()
SIGNATURE = "sha256=aed25d4b82ad98312218f0ff5089825fb5708b7478dd520fa1d813c9ff3a0ac9"


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("RECEIVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECEIVER_SECRETS", f'["{SECRET}", "the-one-before"]')
    Path("body").write_bytes(BODY)


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def test_sign_prints_the_header_value_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It is made with the first secret over the exact bytes."""
    assert invoke("sign", "body") == 0
    assert capsys.readouterr().out == SIGNATURE + "\n"


@pytest.mark.parametrize("args", [("sign",), ("sign", "-")])
def test_sign_reads_standard_input(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This is so without a file name too."""
    stdin(monkeypatch, BODY)

    assert invoke(*args) == 0
    assert capsys.readouterr().out == SIGNATURE + "\n"


@pytest.mark.parametrize("secrets", [SECRET, f"new-secret,{SECRET}"])
def test_verify_accepts_the_signature_of_any_configured_secret(
    secrets: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The receiver does the same while a secret is rotated."""
    monkeypatch.setenv("RECEIVER_SECRETS", secrets)

    assert invoke("verify", "body", "--signature", SIGNATURE) == 0
    assert capsys.readouterr().out.startswith("valid:")


@pytest.mark.parametrize(
    ("signature", "told"),
    [
        (SIGNATURE[:-1] + "8", "another"),
        (SIGNATURE.upper(), "64 lower-case hex digits"),
        (SIGNATURE.removeprefix("sha256="), "64 lower-case hex digits"),
        ("sha1=" + "0" * 40, "64 lower-case hex digits"),
        ("", "64 lower-case hex digits"),
    ],
)
def test_verify_says_why_a_signature_is_not_valid(
    signature: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the right signature is not shown."""
    assert invoke("verify", "body", "--signature", signature) == 1

    said = capsys.readouterr().out
    assert said.startswith("not valid:")
    assert told in said
    assert SIGNATURE not in said


def test_verify_refuses_other_bytes() -> None:
    """An extra line end makes another body."""
    Path("body").write_bytes(BODY + b"\n")

    assert invoke("verify", "body", "--signature", SIGNATURE) == 1


@pytest.mark.parametrize("command", [("sign", "body"), ("verify", "body", "--signature", SIGNATURE)])
def test_without_a_secret_there_is_nothing_to_sign_with(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is wrong use, and the message names the variable."""
    monkeypatch.delenv("RECEIVER_SECRETS")

    assert invoke(*command) == 2
    assert "RECEIVER_SECRETS" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("sign",), ("verify", "--signature", SIGNATURE)])
def test_a_missing_file_is_wrong_use(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The message names it."""
    assert invoke(command[0], "nowhere", *command[1:]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_neither_command_shows_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    """This holds for all output."""
    invoke("sign", "body")
    invoke("verify", "body", "--signature", SIGNATURE)
    invoke("verify", "body", "--signature", "x")

    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert "the-one-before" not in shown.out + shown.err
