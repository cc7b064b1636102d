"""Load by wrk (https://github.com/wg/wrk): a C program takes less of the machine than any load program in Python.

It sends signed bodies that all differ; they are made before the load starts.
"""

import itertools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.benchmarks.payloads import SIGNATURE_HEADER, Pages

_MOST_PER_SECOND = 50_000
"""Bodies made beforehand. wrk must not run out of them, or it would send duplicates."""
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1_000.0}

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


def is_here() -> bool:
    """Tell whether wrk is installed."""
    return shutil.which("wrk") is not None


def load(port: int, *, size: int, connections: int, seconds: int) -> dict[str, object]:
    """Load a server for so many seconds, and return what wrk saw.

    wrk closes its connections at the end without waiting for the last answers, so up to `connections` more than
    `acked` may be stored.
    """
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder), Pages(size), seconds * _MOST_PER_SECOND)
        options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", "wrk.lua")
        command = ("wrk", *options, f"http://127.0.0.1:{port}/")
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate()
    refused = int(_found(r"Non-2xx or 3xx responses: (\d+)", output, "0"))
    return {
        "requests_per_second": float(_found(r"Requests/sec:\s+([\d.]+)", output)),
        "p50_ms": _milliseconds(_found(r"(?m)^ +50% +(\S+)", output)),
        "p99_ms": _milliseconds(_found(r"(?m)^ +99% +(\S+)", output)),
        "max_ms": _milliseconds(_found(r"Latency\s+\S+\s+\S+\s+(\S+)", output)),
        "acked": int(_found(r"(\d+) requests in", output)) - refused,
        "unanswered": connections,
        "refused": {"not 2xx": refused} if refused else {},
    }


def _prepare(folder: Path, pages: Pages, lines: int) -> None:
    (folder / "head").write_bytes(pages.head)
    (folder / "wrk.lua").write_text(_SCRIPT.replace("HEADER", SIGNATURE_HEADER), encoding="utf-8")
    with (folder / "signed").open("wb") as file:
        file.writelines(b"%s %s\n" % (one.signature.encode(), one.tail) for one in itertools.islice(pages, lines))


def _milliseconds(shown: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", shown).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def _found(pattern: str, output: str, otherwise: str | None = None) -> str:
    match = re.search(pattern, output)
    if match is None and otherwise is None:
        raise RuntimeError(f"wrk did not say {pattern!r}:\n{output}")
    return match.group(1) if match else str(otherwise)
