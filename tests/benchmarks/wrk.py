"""The same load by wrk, where that is installed: does our load program measure the server, and not itself?"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.benchmarks.payloads import SIGNATURE_HEADER, Pages
from tests.benchmarks.servers import CONTENDERS, Contender, cores, real_folder, serving, stored

_MOST_PER_SECOND = 25_000
"""Signed bodies made beforehand; wrk must not run out of them, or it would send duplicates."""

_SCRIPT = """
local file = assert(io.open("head", "rb")); local head = file:read("*a"); file:close()
local next_line = io.lines("signed")
function request()
    local line = next_line()
    if not line then os.exit(1) end
    local signature, tail = line:match("^(%S+) (.*)$")
    local headers = {["content-type"] = "application/json", ["HEADER"] = signature}
    return wrk.format("POST", "/webhooks", headers, head .. tail)
end
"""


def cross_check(args: argparse.Namespace, parent: Path) -> list[dict[str, object]]:
    """Return wrk's figures for the bare endpoint and ours at the first size and the most connections."""
    program = shutil.which("wrk")
    if program is None:
        return []
    rows = []
    for name in ("bare", "ours"):
        with real_folder(parent) as folder:
            rows.append(_check(program, CONTENDERS[name], folder, args))
    return rows


def _check(program: str, contender: Contender, folder: Path, args: argparse.Namespace) -> dict[str, object]:
    seconds = max(1, round(args.seconds))
    _prepare(folder, Pages(args.sizes[0]), seconds * _MOST_PER_SECOND)
    connections = args.connections[-1]
    with serving(contender, folder) as (_, port):
        options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", "wrk.lua")
        command = (program, *options, f"http://127.0.0.1:{port}/")
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        if (core := cores()[1]) is not None:
            os.sched_setaffinity(process.pid, {core})
        output, _ = process.communicate()
    answered = int(_found(r"(\d+) requests in", output))
    after = stored(contender, folder)
    return {
        "contender": contender.name,
        "requests/s": float(_found(r"Requests/sec:\s+([\d.]+)", output)),
        "p50": _found(r"50%\s+(\S+)", output),
        "p99": _found(r"99%\s+(\S+)", output),
        "answered": answered,
        # wrk hangs up at its end without waiting for the last answers.
        "kept": "all" if after is None or 0 <= after - answered <= connections else "NOT ALL",
        "not 2xx": int(_found(r"Non-2xx or 3xx responses: (\d+)", output, "0")),
    }


def _prepare(folder: Path, pages: Pages, lines: int) -> None:
    (folder / "head").write_bytes(pages.head)
    (folder / "wrk.lua").write_text(_SCRIPT.replace("HEADER", SIGNATURE_HEADER), encoding="utf-8")
    with (folder / "signed").open("wb") as file:
        file.writelines(b"%s %s\n" % (one.signature.encode(), one.tail) for one in itertools.islice(pages, lines))


def _found(pattern: str, output: str, otherwise: str | None = None) -> str:
    match = re.search(pattern, output)
    if match is None and otherwise is None:
        raise RuntimeError(f"wrk did not say {pattern!r}:\n{output}")
    return match.group(1) if match else str(otherwise)
