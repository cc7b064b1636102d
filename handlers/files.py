"""Files that several threads and processes write: safe names, one writer at a time, never half a file."""

import fcntl
import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

LONGEST_NAME = 60
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
# YAML 1.2, sections 5.1 and 5.4: what a reader may refuse, or take for the end of the line, in a quoted text.
_NOT_FOR_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_LONGEST_FIELD = 2000


def output_folder(name: str) -> Path:
    """Return this folder of the output, made if it is missing. OUTPUT_DIR says where the output is."""
    folder = Path(os.environ.get("OUTPUT_DIR") or "output") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Let one thread of one process into the block at a time. A process that dies in it lets the next one in."""
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in place: whoever reads sees the old content or the new. Call it inside `one_writer`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # One name for all of them: a crash leaves one file behind, and the next writer uses it up.
    unfinished = path.with_name(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def safe_name(text: str) -> str:
    """Return a name that every file system takes: lower-case ASCII, short, not hidden, never empty.

    Different texts may give the same name, also those that differ in case only.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9._-]+", "-", plain)[:LONGEST_NAME].strip(".-") or "_"
    return f"_{name}" if name.partition(".")[0] in _DEVICES else name


def unique_name(text: str, identity: str) -> str:
    """Return a safe name that only this identity has; no result of `safe_name` has a `~` in it."""
    return f"{safe_name(text)}~{fingerprint(identity)}"


def fingerprint(text: str) -> str:
    """Return 16 hex digits that stand for a text of any length and content."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def one_line(text: str, longest: int) -> str:
    """Return text from outside fit for a line of a file, a log or a terminal: printable, and cut to a length."""
    shown = " ".join(text[: 4 * longest].split())
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def timestamp(moment: datetime) -> str:
    """Return a moment as text that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def front_matter(fields: Mapping[str, str | int | bool | None]) -> str:
    """Return YAML between lines of dashes, one line per field that has a value, safe whatever the texts hold."""
    lines = [f"{name}: {_yaml(value)}" for name, value in fields.items() if value is not None]
    return "\n".join(["---", *lines, "---", ""])


def _yaml(value: str | int | bool) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    # A JSON string is a quoted YAML scalar, but for characters that JSON leaves as they are and YAML does not.
    quoted = json.dumps(value[:_LONGEST_FIELD], ensure_ascii=False)
    return _NOT_FOR_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
