"""`receiver guide`: plain Markdown in a pipe, formatted on a terminal, with suggestions and completion."""

import re

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from receiver.cli.guide import guide
from receiver.cli.main import receiver
from receiver.core.guide import TOPICS, read_topic

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def said(*words: str) -> str:
    """Return what `receiver guide` writes into a pipe."""
    result = CliRunner().invoke(guide, words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal of 80 columns; the list gets what the pager is asked to show."""
    shown: list[str] = []
    monkeypatch.setattr("receiver.cli.guide.is_terminal", lambda: True)
    monkeypatch.setattr("click.echo_via_pager", shown.append)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return shown


@pytest.mark.parametrize("words", [(), ("--list",), ("start", "--list")])
def test_the_list_has_a_line_of_80_columns_for_each_topic(words: tuple[str, ...]) -> None:
    """The name is what one types."""
    lines = said(*words).splitlines()

    assert [line.split()[0] for line in lines] == list(TOPICS)
    assert max(map(len, lines)) <= 80


def test_a_pipe_gets_the_markdown() -> None:
    """With links as in the files, and with the parts that are made from the code."""
    assert said("order") == said("Order", "and", "batches") == said("order and batches") == read_topic("order")
    assert "| `STORE` | `sqlite:///receiver.db` |" in said("reference")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_terminal_of_80_columns_gets_formatted_text(terminal: list[str], topic: str) -> None:
    """No line is longer, no Markdown is left, and a link says which command shows its topic."""
    assert said(topic) == ""

    lines = _STYLE.sub("", terminal[0]).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if ".md)" in line or line.startswith(("```", "## "))]
    if topic == "start":
        assert re.search(r"\(receiver\s+guide\s+handlers\)", "\n".join(lines))
    assert terminal[0] != _STYLE.sub("", terminal[0])


def test_no_colour_is_obeyed(terminal: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Bold and underlined are no colours."""
    monkeypatch.setenv("NO_COLOR", "1")

    said("order")

    assert not re.search(r"\x1b\[[0-9;]*\b(3|4|9|10)[0-7]\b", terminal[0])


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("retrys", "retries"),
        ("deploy", "deploying"),
        ("batches", "order"),
        ("failures", "retries"),
        ("the service's quirks", "quirks"),
    ],
)
def test_a_topic_that_does_not_exist_is_suggested(wrong: str, meant: str) -> None:
    """By its name, or by a word of its title."""
    result = CliRunner().invoke(guide, [wrong])

    assert result.exit_code == 2
    assert f"did you mean {meant}?" in result.output


def test_without_a_suggestion_the_list_is_named() -> None:
    """A wrong word shows the way on."""
    result = CliRunner().invoke(guide, ["xyzzy"])

    assert result.exit_code == 2
    assert "The guide has no topic 'xyzzy'; `receiver guide` lists them" in result.output


def test_topics_are_completed() -> None:
    """As a shell asks for it."""
    completion = ShellComplete(receiver, {}, "receiver", "_RECEIVER_COMPLETE")

    assert [one.value for one in completion.get_completions(["guide"], "re")] == ["retries", "replay", "reference"]
