"""Files for several threads and processes: safe names, one writer at a time, never half a file."""

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
# YAML 1.2, sections 5.1 and 5.4: a reader may refuse these in a quoted text, or take them for the end of the line.
_NOT_FOR_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_LONGEST_FIELD = 2000


def output_folder(name: str) -> Path:
    """Return this folder of the output, and create it if it is missing. OUTPUT_DIR is the folder of all output."""
    folder = Path(os.environ.get("OUTPUT_DIR") or "output") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Let only one thread of one process run the block at a time. If its process dies, the next one may run it."""
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file at once: a reader sees the old content or the new one. Call it inside `one_writer`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # All writers use the same name: after a crash one file is left, and the next writer overwrites it.
    unfinished = path.with_name(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def safe_name(text: str) -> str:
    """Return a name that every file system takes: lower-case ASCII, short, not hidden, never empty.

    Different texts may give the same name, for example if only their case differs.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9._-]+", "-", plain)[:LONGEST_NAME].strip(".-") or "_"
    return f"_{name}" if name.partition(".")[0] in _DEVICES else name


def unique_name(text: str, identity: str) -> str:
    """Return a safe name that only this identity has. `safe_name` never returns a name with `~`."""
    return f"{safe_name(text)}~{fingerprint(identity)}"


def fingerprint(text: str) -> str:
    """Return 16 hex digits that identify a text of any length and content."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def one_line(text: str, longest: int) -> str:
    """Return a text from outside as one printable line of limited length, for a file, a log or a terminal."""
    shown = " ".join(text[: 4 * longest].split())
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def timestamp(moment: datetime) -> str:
    """Return a moment as text that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def front_matter(fields: Mapping[str, str | int | bool | None]) -> str:
    """Return YAML between lines of dashes, one line per field that has a value. Every text is safe in it."""
    lines = [f"{name}: {_yaml(value)}" for name, value in fields.items() if value is not None]
    return "\n".join(["---", *lines, "---", ""])


def _yaml(value: str | int | bool) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    # A JSON string is a quoted YAML scalar, except for characters that JSON allows and YAML does not.
    quoted = json.dumps(value[:_LONGEST_FIELD], ensure_ascii=False)
    return _NOT_FOR_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
