"""Reads a document in another process: a file that loops or eats memory costs that page only.

A thread cannot be stopped, and the libraries for these formats have had files that never end.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from receiver.emulator.content.documents.markup import DocumentText
from receiver.emulator.failures import ScrapeFailed

_CHILD = "receiver.emulator.content.documents.child"


def read_document(kind: str, body: bytes, options: Mapping[str, Any], *, seconds: float) -> DocumentText:
    """Return the text of a document. Raises ScrapeFailed if it has none, takes too long or cannot be read."""
    command = [sys.executable, "-W", "ignore", "-P", "-m", _CHILD, kind, json.dumps(dict(options))]
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
