"""The process that reads one document: `python -m …documents.child KIND OPTIONS`, the file on standard input."""

import contextlib
import importlib
import json
import resource
import sys
from typing import Any

from receiver.emulator.content.documents.markup import UnreadableDocument

_MEMORY = 1 << 30
_PACKAGE = "receiver.emulator.content.documents"
READERS = {
    "pdf": "pdf",
    "docx": "word",
    "rtf": "rich_text",
    "xlsx": "sheets",
    "csv": "sheets",
    "pptx": "slides",
    "odt": "open_document",
    "epub": "epub",
}
"""The module of each kind. It has a function `read_KIND(body, options)`."""


def main() -> int:
    """Write the text of the document as JSON to standard output, or why there is none."""
    with contextlib.suppress(ValueError, OSError):  # not every system can limit it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    json.dump(answer_to(kind, sys.stdin.buffer.read(), options), sys.stdout)
    return 0


def answer_to(kind: str, body: bytes, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a document holds, or the code and the text of the failure."""
    try:
        module = importlib.import_module(f"{_PACKAGE}.{READERS[kind]}")
        text = getattr(module, f"read_{kind}")(body, options)
    except UnreadableDocument as error:
        return {"code": error.code, "text": str(error)}
    except Exception as error:  # whatever a broken file does to its reader
        return {
            "code": "SCRAPE_ALL_ENGINES_FAILED",
            "text": f"The {kind} file could not be read: {type(error).__name__}.",
        }
    answer: dict[str, Any] = text.as_json()
    return answer


if __name__ == "__main__":
    sys.exit(main())
