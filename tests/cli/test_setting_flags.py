"""Flags that set a setting."""

from pathlib import Path

import pytest

from receiver.cli.main import receiver, run

pytestmark = pytest.mark.usefixtures("bare_environment")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--max-body", "32M"], "receiver: --max-body: a size is a number of bytes, or has a unit"),
        (["--lease", "soon"], "receiver: --lease: a duration is a number with its unit"),
        (["--ack-deadline", "10s"], "receiver: --ack-deadline: it has to be less than 10s"),
        (["--port", "70000"], "receiver: --port: it has to be 65535 or less"),
        (["--log-level", "loud"], "receiver: --log-level: a level is debug, info, warning or error"),
        (
            ["--max-body", "2MB", "--max-in-flight", "1MB"],
            "receiver: --max-in-flight must not be less than --max-body",
        ),
        (["--read-timeout", "6s"], "receiver: --read-timeout must not be longer than RECEIVER_ACK_DEADLINE"),
        (["--path", "/a b"], "receiver: --path: a path may have only letters"),
    ],
)
def test_an_error_names_the_flag_that_was_typed(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A setting that was not typed keeps the name of its variable."""
    assert run(receiver.main, ["check", *arguments]) == 2

    assert capsys.readouterr().err.startswith(error)


def test_an_error_names_the_variable_that_was_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was typed here."""
    monkeypatch.setenv("RECEIVER_MAX_BODY", "32M")

    assert run(receiver.main, ["check"]) == 2

    assert capsys.readouterr().err.startswith("receiver: RECEIVER_MAX_BODY: a size is")


def test_sizes_and_durations_are_flags(bare_environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are written as in the settings; a number alone is in bytes or seconds."""
    (bare_environment / ".env").write_text("RECEIVER_SECRETS=a-secret\n")
    flags = ("--max-body", "16MiB", "--max-in-flight", "33554432", "--ack-deadline", "4s", "--grace", "5")

    run(receiver.main, ["check", *flags])

    assert capsys.readouterr().out.startswith("settings  read without errors")
