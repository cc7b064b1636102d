"""Ids that are numbers of rows, on the command line."""

from typing import Any

import click

from receiver.core.text import escape_controls


class RowId(click.IntRange):
    """The number of a row of the store. The error for other text says which command lists the numbers."""

    def __init__(self, noun: str, listing: str) -> None:
        super().__init__(min=0, max=2**63 - 1)
        self._error = f"is not the number of a {noun}: `{listing}` shows them"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{escape_controls(str(value))!r} {self._error}", param, ctx)


WORK_ID = RowId("work item", "receiver work-items list")
REQUEST_ID = RowId("request in quarantine", "receiver quarantine list")
ACTION_ID = RowId("recorded action", "receiver actions")
