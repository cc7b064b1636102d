"""The receiver of the demo: `receiver serve` with its worker, started and stopped like any program."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

import click
from rich.console import Console

from receiver.errors import ReceiverError
from receiver.settings import PREFIX

_HANDLERS = "handlers."
"""Loggers of handlers; the demo shows their messages."""


class DemoFailed(ReceiverError):
    """The demo failed. The text says where."""


class ReceiverProcess:
    """Runs `receiver serve` in a folder, always on the same port once it has one."""

    def __init__(self, folder: Path, secret: str, service_url: str, api_key: str, console: Console) -> None:
        self.environment = _environment(secret, service_url, api_key)
        self.url = ""
        self._folder = folder
        self._console = console
        self._port = "0"
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process is not None and self._process.returncode is not None

    async def start(self) -> None:
        """Start the process, and return when it listens. Raises DemoFailed if it does not."""
        command = (sys.executable, "-P", "-m", "receiver", "serve", "--port", self._port, "--json-logs")
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, env=self.environment, stderr=asyncio.subprocess.PIPE
        )
        lines = _log_lines(self._process)
        self.url = await _listening(lines)
        self._port = self.url.partition("//")[2].partition("/")[0].rpartition(":")[2]
        self._reading = asyncio.create_task(_show_handlers(lines, self._console))

    async def stop(self) -> None:
        """Stop the process, if it runs. Raises DemoFailed if it does not end well."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        code = await process.wait()
        if self._reading is not None:
            await self._reading
        if code != 0:
            raise DemoFailed(f"`receiver serve` ended with exit code {code}")

    async def command(self, *words: str) -> str:
        """Run another command of the receiver in the folder, and return what it prints. Raises DemoFailed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "receiver",
            *words,
            cwd=self._folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        text = output.decode(errors="replace")
        if process.returncode != 0:
            raise DemoFailed(f"`receiver {words[0]}` ended with exit code {process.returncode}: {text}")
        return text


def _environment(secret: str, service_url: str, api_key: str) -> Mapping[str, str]:
    """Return an environment without the settings of the caller's own receiver, database and chat."""
    own = (PREFIX, "CHAT_WEBHOOK_URL", "OUTPUT_DIR", "DATABASE_URL")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {
        **inherited,
        f"{PREFIX}SECRETS": json.dumps([secret]),
        f"{PREFIX}STORE": "sqlite:///receiver.db",
        f"{PREFIX}HANDLERS": "handlers:router",
        f"{PREFIX}BASE_URL": service_url,
        f"{PREFIX}API_KEY": api_key,
    }


async def _log_lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, str]]:
    if process.stderr is None:
        raise DemoFailed("the server's log cannot be read")
    while line := await process.stderr.readline():
        try:
            yield json.loads(line)
        except ValueError:
            click.echo(line.decode(errors="replace"), err=True, nl=False)


async def _listening(lines: AsyncIterator[dict[str, str]]) -> str:
    async for line in lines:
        if line["event"] == "listening":
            return line["url"]
    raise DemoFailed("`receiver serve` did not start; its messages are above")


async def _show_handlers(lines: AsyncIterator[dict[str, str]], console: Console) -> None:
    """Print the messages of handlers, and every error."""
    async for line in lines:
        if line["logger"].startswith(_HANDLERS) or line["level"] == "error":
            detail = line.get("exception") or line.get("error") or line.get("reason") or ""
            console.print(f"   {line['event']} {detail}".rstrip(), markup=False)
