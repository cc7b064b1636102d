"""The documents of jobs, in the order in which their pages were scraped."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from receiver.service.emulator.state.packing import pack, unpack

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS job_documents (
    job INTEGER NOT NULL,
    position INTEGER NOT NULL,
    size INTEGER NOT NULL,
    document BLOB NOT NULL,
    PRIMARY KEY (job, position)
) STRICT;
"""

MAX_DOCUMENTS = 100
"""How many documents one answer has, unless the call asks for another number."""
MAX_BYTES = 10 * 1024 * 1024
"""How many bytes of documents one answer has; one document is always in it."""


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some documents of a job."""

    texts: list[bytes]
    """The documents as JSON, in the order in which their pages were scraped."""
    last: int
    """The position of the last one: the first of all documents has 1."""

    @property
    def documents(self) -> list[Json]:
        """The documents."""
        return [json.loads(text) for text in self.texts]


def insert_document(connection: sqlite3.Connection, job: int, position: int, document: bytes) -> None:
    """Keep the document of a page."""
    row = (job, position, len(document), pack(document))
    connection.execute("INSERT INTO job_documents VALUES (?, ?, ?, ?)", row)


def read_documents(
    connection: sqlite3.Connection, job: int, skip: int, limit: int, max_bytes: int = MAX_BYTES
) -> ResultsPage:
    """Return documents from a position on: at most `limit`, and no more than `max_bytes`, but at least one."""
    texts: list[bytes] = []
    position, budget = skip, max_bytes
    rows = connection.execute(
        "SELECT position, size, document FROM job_documents WHERE job = ? AND position > ?"
        " ORDER BY position LIMIT ?",
        (job, skip, limit),
    )
    for row in rows:
        budget -= row["size"]
        if budget < 0 and texts:
            break
        texts.append(unpack(row["document"]))
        position = row["position"]
    return ResultsPage(texts, position)


def delete_documents(connection: sqlite3.Connection, jobs: list[int]) -> None:
    """Delete the documents of jobs."""
    connection.executemany("DELETE FROM job_documents WHERE job = ?", ((seq,) for seq in jobs))
