"""Reads a document in a process of its own: a file that loops or takes all memory costs that page only.

A thread cannot be stopped, and the libraries for these formats have had files that never end. The process is
`python -m …documents.child KIND OPTIONS`, with the file on standard input.
"""

import contextlib
import importlib
import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from receiver.emulator.content.documents.markup import DocumentText, UnreadableDocument
from receiver.emulator.failures import ScrapeFailed

_MEMORY = 1 << 30
_PACKAGE = "receiver.emulator.content.documents"
READERS = {
    "pdf": "pdf",
    "docx": "office",
    "rtf": "rich_text",
    "xlsx": "office",
    "csv": "office",
    "pptx": "office",
    "odt": "open_formats",
    "epub": "open_formats",
}
"""The module of each kind, which has a function `read_KIND(body, options)`."""


def main() -> int:
    """Write the text of the document, or why it has none, as JSON to standard output."""
    with contextlib.suppress(ValueError, OSError):  # not every system can limit it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    json.dump(answer_to(kind, sys.stdin.buffer.read(), options), sys.stdout)
    return 0


def answer_to(kind: str, body: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """Return the text of a document as JSON, or the code and the text of the failure."""
    try:
        module = importlib.import_module(f"{_PACKAGE}.{READERS[kind]}")
        text: DocumentText = getattr(module, f"read_{kind}")(body, options)
    except UnreadableDocument as error:
        return {"code": error.code, "text": str(error)}
    except Exception as error:  # whatever a broken file does to its reader
        return {
            "code": "SCRAPE_ALL_ENGINES_FAILED",
            "text": f"The {kind} file could not be read: {type(error).__name__}.",
        }
    return asdict(text)


def read_document(kind: str, body: bytes, options: Mapping[str, Any], *, seconds: float) -> DocumentText:
    """Return the text of a document. Raises ScrapeFailed if it has none, takes too long or cannot be read."""
    command = [sys.executable, "-W", "ignore", "-P", "-m", f"{_PACKAGE}.child", kind, json.dumps(dict(options))]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, input=body, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        code = "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR" if kind == "pdf" else "SCRAPE_TIMEOUT"
        raise ScrapeFailed(code, f"The {kind} file could not be read within {seconds:g} seconds.") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise ScrapeFailed(
            "SCRAPE_ALL_ENGINES_FAILED", f"The {kind} file could not be read: it needs too much time or memory."
        ) from error
    if "code" in answer:
        raise ScrapeFailed(answer["code"], answer["text"])
    return DocumentText(**answer)


if __name__ == "__main__":
    sys.exit(main())
