"""A group of commands that imports the module of a command only when that command is needed."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import click

from receiver.core.text import did_you_mean, resembling


class LazyGroup(click.Group):
    """Takes a table of command names, each with `module:attribute`, in the order in which help lists them.

    `aliases` are further names of these commands, which help does not list.

    `receiver sign` then loads no web server, and `receiver events list` does not load what `events export` needs.
    """

    def __init__(
        self, *args: Any, subcommands: Mapping[str, str], aliases: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._subcommands = dict(subcommands)
        self._aliases = dict(aliases or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return None for a name that is not in the table."""
        place = self._subcommands.get(self._aliases.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, the error says which commands resemble it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            close = resembling(args[0], [*self._subcommands, *self._aliases])
            if not close:
                raise
            raise click.UsageError(exc.message.removesuffix(".") + did_you_mean(close), ctx) from None

    def summaries(self, ctx: click.Context, width: int) -> Iterator[tuple[str, str]]:
        """Yield each name with its summary, so that both fit in this width."""
        room = width - max(map(len, self._subcommands))
        for name in self._subcommands:
            if command := self.get_command(ctx, name):
                yield name, command.get_short_help_str(limit=room)
