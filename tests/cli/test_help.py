"""The help of every command."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.main import receiver

_COLUMNS = 80


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below a group with its words."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))


def help_of(*words: str) -> str:
    """Return the help of a command on a terminal of 80 columns."""
    result = CliRunner().invoke(receiver, [*words, "--help"], terminal_width=_COLUMNS)
    assert result.exit_code == 0, result.output
    return result.output


def test_no_summary_of_a_command_is_cut() -> None:
    """Each summary fits in 80 columns, in the help of `receiver`, of each group, and of `simulate`."""
    groups = [words for words, command in commands(receiver) if isinstance(command, click.Group)]

    for words in [(), *groups, ("simulate",)]:
        assert [
            line for line in help_of(*words).splitlines() if line.startswith("  ") and line.endswith("...")
        ] == []


def test_every_command_has_a_summary_of_one_sentence() -> None:
    """The first paragraph of its help is the summary."""
    for words, command in commands(receiver):
        summary = (command.help or "").partition("\n\n")[0]
        assert summary.endswith("."), words
        assert summary.count(". ") == 0, words
        assert "\n" not in summary, words


def test_every_option_has_a_help_text() -> None:
    """A help text begins with a capital letter and ends with a full stop or a default."""
    for words, command in commands(receiver):
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                text = option.help or ""
                assert text[:1].isupper(), (words, option.name)
                assert text.endswith((".", "]")), (words, option.name)


def test_a_group_imports_only_the_command_that_is_asked_for() -> None:
    """A wrong entry in its table is an error when it is asked for."""
    group = LazyGroup("tools", subcommands={"good": "receiver.cli.sign:sign", "bad": "receiver.cli.sign:IO"})
    context = click.Context(group)

    assert group.list_commands(context) == ["good", "bad"]
    assert group.get_command(context, "good") is not None
    assert group.get_command(context, "other") is None
    with pytest.raises(TypeError, match="sign:IO is not a command"):
        group.get_command(context, "bad")
