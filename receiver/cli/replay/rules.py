"""The options of `receiver replay` that exclude or need each other."""

from collections.abc import Sequence

import click

from receiver.cli.replay.flags import ReplayFlags
from receiver.core.text import escape_controls

_BUNDLE = "BUNDLE"

_CONFLICTS: Sequence[tuple[Sequence[str], Sequence[str], str]] = (
    (["--enqueue"], ["--to"], "--enqueue and --to exclude each other: choose one"),
    (
        ["--record", "--frozen-time", "--no-network", "--reload", "--save", "--compare"],
        ["--enqueue", "--to"],
        "{given}: only if handlers run here, without --enqueue and --to",
    ),
    (["--handler"], ["--to"], "--handler chooses handlers here; with --to they run elsewhere"),
    (["--enqueue", "--record"], [_BUNDLE], "a bundle is not in the store: run `receiver events import` first"),
    (["--failed", "--state"], [_BUNDLE], "{given}: a bundle has no work items to choose by"),
)
"""None of the first options goes with any of the second; `{given}` lists those of the first that were given."""

_NEEDS: Sequence[tuple[Sequence[str], str]] = ((["--rate", "--new-ids"], "--to"),)
"""Each of the first options needs the second."""


def check_combination(flags: ReplayFlags) -> None:
    """Raise UsageError for options that do not go together, and for a file to compare with that is not there."""
    given = {*flags.options(), *([] if flags.bundle is None else [_BUNDLE])}
    for options, others, message in _CONFLICTS:
        if (refused := [one for one in options if one in given]) and given.intersection(others):
            raise click.UsageError(message.format(given=", ".join(refused)))
    for options, needed in _NEEDS:
        if (refused := [one for one in options if one in given]) and needed not in given:
            verb = "needs" if len(refused) == 1 else "need"
            raise click.UsageError(f"{' and '.join(refused)} {verb} {needed}")
    if flags.save and flags.compare and flags.save.resolve() == flags.compare.resolve():
        raise click.UsageError("--save would replace the file that --compare reads: name another one")
    if flags.compare is not None and not flags.compare.exists():
        raise click.UsageError(f"--compare: there is no file {escape_controls(str(flags.compare))}")
    if flags.after is not None and flags.after.job_id is not None and not flags.by_job:
        raise click.UsageError(f"--after {flags.after} is a place in the order of jobs: add --order job")
