"""The help of all commands, and their exit codes, as parts of the guide."""

from collections.abc import Iterator

import click

from receiver.cli.common.exit_codes import MEANINGS
from receiver.cli.main import receiver
from receiver.core.text import table

_WIDTH = 76
"""Columns of a help text: as a block of a page, it fits into 80."""


def command_table() -> str:
    """Return a table of all commands, with the subcommands of a group below it: name and summary."""
    return table(("command", "what it does"), [(f"`{one.command_path}`", _summary(one)) for one in _contexts()])


def all_help() -> str:
    """Return what `--help` prints for each command, below a heading with its name."""
    return "\n\n".join(f"## {one.command_path}\n\n```text\n{one.get_help()}\n```" for one in _contexts())


def exit_code_table() -> str:
    """Return a table of the exit codes of all commands."""
    return table(("exit code", "meaning"), [(f"`{code}`", meaning) for code, meaning in MEANINGS.items()])


def _summary(context: click.Context) -> str:
    return (context.command.help or "").partition("\n\n")[0]


def _contexts() -> Iterator[click.Context]:
    """Yield the context of each command, those of a group behind it."""
    names = receiver.context_settings["help_option_names"]
    top = click.Context(
        receiver, info_name="receiver", help_option_names=names, max_content_width=_WIDTH, terminal_width=_WIDTH
    )
    yield from _below(top, receiver)


def _below(parent: click.Context, group: click.Group, before: str = "") -> Iterator[click.Context]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=before + name, parent=parent)
        yield context
        if isinstance(command, click.Group):
            yield from _below(context, command)
        elif (subcommands := group_of(command)) is not None:
            yield from _below(parent, subcommands, f"{name} ")  # the path has no arguments of the command


def group_of(command: click.Command) -> click.Group | None:
    """Return the group of the subcommands of a command, which may be no group itself; None if there are none."""
    if isinstance(command, click.Group):
        return command
    below = getattr(command, "subcommands", None)
    return below if isinstance(below, click.Group) else None
