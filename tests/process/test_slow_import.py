"""Handlers whose import waits for ever: commands say where, and Ctrl-C ends them."""

import signal
from pathlib import Path

import pytest

from receiver.cli.common.exit_codes import INTERRUPTED
from tests.process.harness import Deployment


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("check", ("receiver: still importing handlers, which is at handlers.py:3; Ctrl-C ends the command",)),
        ("work", ("handlers_still_importing", "handlers=handlers:router", "where=handlers.py:3")),
    ],
)
async def test_an_import_without_end_is_told_and_can_be_stopped(
    tmp_path: Path, command: str, words: tuple[str, ...]
) -> None:
    """Once, with the line that it has come to."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers("import threading\n\nthreading.Event().wait()\n")

    async with deployment.start(command) as program:
        await program.line(*words)
        program.send_signal(signal.SIGINT)

        assert await program.exit_code() == INTERRUPTED
        assert program.output.count("still") == 1
