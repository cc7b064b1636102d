"""Code of a caller, run in a confined process: it can reach the page of its session, and little else."""

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import greenlet
import playwright
from playwright._impl._driver import compute_driver_executable

from receiver.emulator.browser import agent_browser, code_python
from receiver.emulator.browser.chromium import own_folder
from receiver.emulator.browser.executable import GUARD
from receiver.emulator.browser.session_records import CodeOutcome, Language

MAX_OUTPUT = 1024 * 1024
"""Bytes of standard output, of standard error and of a result; the rest is dropped."""
_MEMORY = 1 << 30
_CONFINED_NO = 126
_NODE = "code_node.js"
_BASH = "/bin/bash"
_PYTHON = ("-P", "-s", "-B")


async def run_code(language: Language, code: str, url: str, seconds: float) -> CodeOutcome:
    """Run code on the browser with the CDP address `url`, for at most this many real seconds."""
    async with own_folder() as folder:
        result = Path(folder, "result")
        command = await asyncio.to_thread(_command, language, folder, code, result, url)
        readable = {str(Path(__file__).parent), sys.prefix, sys.base_prefix, *_packages()}
        kind = os.pathsep.join(["code", str(urlsplit(url).port), *sorted(readable)])
        guard = [*GUARD, str(os.getpid()), folder, str(_MEMORY), kind, "--", *command]
        process = await asyncio.create_subprocess_exec(
            *guard,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(folder, url),
            start_new_session=True,
        )
        return await _outcome(process, result, seconds)


async def _outcome(process: asyncio.subprocess.Process, result: Path, seconds: float) -> CodeOutcome:
    reading = asyncio.gather(*(asyncio.ensure_future(_read(one)) for one in (process.stdout, process.stderr)))
    killed = False
    value = b""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(reading)
            value = await asyncio.to_thread(_content, result)
    except TimeoutError:
        killed = True
    finally:
        # Its guard notices the end of this process, and ends everything it started.
        if process.returncode is None and (killed or not reading.done()):
            process.kill()
    (out, cut_out), (err, cut_err) = await reading
    code = await process.wait()
    return CodeOutcome(
        stdout=out,
        stderr=err,
        result=value[:MAX_OUTPUT].decode("utf-8", "replace") if value else None,
        exit_code=137 if killed or code < 0 else code,
        killed=killed,
        truncated=cut_out or cut_err or len(value) > MAX_OUTPUT,
    )


async def _read(stream: asyncio.StreamReader | None) -> tuple[str, bool]:
    kept = bytearray()
    cut = False
    while stream is not None and (piece := await stream.read(65_536)):
        room = MAX_OUTPUT - len(kept)
        kept += piece[:room]
        cut = cut or len(piece) > room
    return kept.decode("utf-8", "replace"), cut


def _content(result: Path) -> bytes:
    """Return what the code has written. It may be a link to a file that the code could not read, or a pipe."""
    try:
        number = os.open(result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(number, "rb") as file:
        return file.read(MAX_OUTPUT + 1) if stat.S_ISREG(os.fstat(number).st_mode) else b""


def _command(language: Language, folder: str, code: str, result: Path, url: str) -> Sequence[str]:
    script = Path(folder, "code")
    script.write_text(code)
    driver, _ = compute_driver_executable()
    here = Path(__file__).parent
    match language:
        case "python":
            return [sys.executable, *_PYTHON, code_python.__file__, str(script), str(result), url]
        case "node":
            package = Path(driver).parent / "package"
            return [str(driver), str(here / _NODE), str(script), str(result), url, str(package)]
        case "bash":
            tool = Path(folder, "agent-browser")
            tool.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" {" ".join(_PYTHON)} "{agent_browser.__file__}" "$@"\n'
            )
            tool.chmod(0o755)
            return [shutil.which("bash") or _BASH, str(script)]


def _packages() -> list[str]:
    """Return the folders of the driver and of the packages it needs."""
    return sorted({str(Path(one.__path__[0]).parent) for one in (greenlet, playwright)})


def _environment(folder: str, url: str) -> dict[str, str]:
    path = f"{folder}:/usr/local/bin:/usr/bin:/bin"
    packages = os.pathsep.join(_packages())
    return {
        "PYTHONPATH": packages,
        "PATH": path,
        "HOME": folder,
        "TMPDIR": folder,
        "CDP_URL": url,
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
    }
