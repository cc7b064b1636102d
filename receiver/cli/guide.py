"""`receiver guide`: the guide in the terminal, and its tables of commands and exit codes."""

import re
import sys
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from receiver.cli.common.exit_codes import MEANINGS
from receiver.cli.common.output import write_line
from receiver.cli.main import receiver
from receiver.core.guide import TOPICS, read_topic, topic_link, topics
from receiver.core.text import did_you_mean, resembling, table

_WIDEST = 100
"""Columns: longer lines are hard to read."""
_SMALL_WORDS = {"and", "the", "of", "it"}
_MOST_MEANT = 3
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def _complete_topic(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from receiver.cli.common.filters import completed  # loads the settings, which the guide need not

    return completed(TOPICS, incomplete)


@click.command()
@click.argument("topic", nargs=-1, shell_complete=_complete_topic)
@click.option("--list", "only_list", is_flag=True, help="List the topics, as without TOPIC.")
def guide(topic: tuple[str, ...], only_list: bool) -> None:
    """Show the guide: handlers, tests, deployment, operation.

    TOPIC is a name or a title, such as `retries` or `order and batches`. On a terminal the topic is formatted, and
    $PAGER shows it. A pipe or a file gets plain Markdown.
    """
    if not topic or only_list:
        for one in topics():
            write_line(f"{one.name:<{max(map(len, TOPICS))}}  {one.summary}")
        return
    text = read_topic(_named(" ".join(topic)))
    if is_terminal():
        click.echo_via_pager(_formatted(text))
    else:
        write_line(text.rstrip("\n"))


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def _named(asked: str) -> str:
    """Return the topic with this name or title. Raises UsageError with those that may be meant."""
    known = topics()
    if found := [one.name for one in known if asked.lower() in (one.name, one.title.lower())]:
        return found[0]
    words = set(asked.lower().split())
    meant = [one.name for one in known if words & {one.name, *one.title.lower().split()} - _SMALL_WORDS]
    meant = meant or resembling(asked.lower(), TOPICS)
    close = did_you_mean(meant[:_MOST_MEANT]) or "; `receiver guide` lists them"
    raise click.UsageError(f"The guide has no topic {asked!r}{close}")


def _formatted(text: str) -> str:
    """Return Markdown as a terminal shows it. A link to a topic names the command that shows the topic."""
    from rich.console import Console  # a pipe needs neither
    from rich.markdown import Markdown
    from rich.theme import Theme

    console = Console(force_terminal=True, theme=Theme({"markdown.code": "bold cyan"}))
    console.width = min(console.width, _WIDEST)
    with console.capture() as captured:
        # The terminal's own colours, without a background, can be read on light and on dark.
        console.print(Markdown(_LINK.sub(_as_command, text), code_theme="ansi_dark", hyperlinks=False))
    return captured.get()


def _as_command(link: re.Match[str]) -> str:
    target = topic_link(link[2])
    return link[0] if target is None else f"{link[1]} (`receiver guide {target.topic}`)"


_WIDTH = 76
"""Columns of a help text: as a block of a page, it fits into 80."""


def command_table() -> str:
    """Return a table of all commands, with the subcommands of a group below it: name and summary."""
    summaries = ((one, (one.command.help or "").partition("\n\n")[0]) for one in _contexts())
    return table(("command", "what it does"), [(f"`{one.command_path}`", summary) for one, summary in summaries])


def all_help() -> str:
    """Return what `--help` prints for each command, below a heading with its name."""
    return "\n\n".join(f"## {one.command_path}\n\n```text\n{one.get_help()}\n```" for one in _contexts())


def exit_code_table() -> str:
    """Return a table of the exit codes of all commands."""
    return table(("exit code", "meaning"), [(f"`{code}`", meaning) for code, meaning in MEANINGS.items()])


def _contexts() -> Iterator[click.Context]:
    """Yield the context of each command, those of a group after the group."""
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
