"""Groups of commands, whose help keeps their order; a lazy one imports a command only when it is needed."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import click


class CommandGroup(click.Group):
    """Lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, the error says which commands resemble it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            from receiver.core.text import did_you_mean, resembling  # `receiver --version` need not load it

            close = resembling(args[0], self.list_commands(ctx))
            if not close:
                raise
            raise click.UsageError(exc.message.removesuffix(".") + did_you_mean(close), ctx) from None

    def summaries(self, ctx: click.Context, width: int) -> Iterator[tuple[str, str]]:
        """Yield each name with its summary, so that both fit in this width."""
        names = self.list_commands(ctx)
        for name in names:
            if command := self.get_command(ctx, name):
                yield name, command.get_short_help_str(limit=width - max(map(len, names)))


class LazyGroup(CommandGroup):
    """Imports the commands of a table when they are needed: `receiver sign` loads no web server.

    The table has `module:attribute` for each name. Help lists these commands after the others.
    """

    def __init__(self, *args: Any, subcommands: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order, those of the table last."""
        return [*self.commands, *self._subcommands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, imported if it is in the table; None without one."""
        place = self._subcommands.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} is not a command")
        return command
