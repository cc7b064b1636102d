"""The bounds on memory that the guide states, in MiB. The proofs hold the processes to them."""

from receiver.core.body_cost import COSTLY_BODY
from receiver.stores.writer_process.process import MAX_BYTES as MAX_BATCH
from receiver.worker.events import MAX_MEMORY
from receiver.worker.work_in_hand import MAX_BYTES
from tests.proofs.resources import MIB

PROGRAM_MIB = 128
"""A process at rest needs 55 MiB. The rest is for connections, and for the values that SQLite's statements keep."""
HEADS_MIB = 96
"""2,000 requests with the largest heads that are read: 32 KiB in 100 headers, each 130 bytes more."""


def web_bound_mib(*, max_body: int, max_in_flight: int) -> float:
    """Return the most memory of the web process.

    A body is in memory twice while its parts are joined, and twice on its way to the writer. Beside them one long
    body is examined. Without a writer one body is stored, and one is compared with its duplicate.
    """
    return PROGRAM_MIB + HEADS_MIB + (2 * max_in_flight + 3 * max_body) / MIB


def writer_bound_mib(*, max_body: int) -> float:
    """Return the most memory of the process that writes.

    It has two batches, each of them twice while it is read. A batch is as large as its limit, or one body. Beside
    them one body is compared with its duplicate.
    """
    return PROGRAM_MIB + (2 * 2 * (MAX_BATCH + max_body) + max_body) / MIB


def worker_bound_mib(*, max_body: int, concurrency: int = 32, threads: int = 8, processes: int = 8) -> float:
    """Return the most memory of a worker whose handlers keep nothing and take no batches.

    The bodies that it has claimed are in memory twice while they are read from the database. Events that cost more
    than one MiB share a budget; each other work item may have an event of one MiB.
    """
    bodies = 2 * (MAX_BYTES + max_body)
    work_items = sum(max(64, 4 * slots) for slots in (concurrency, threads, processes))
    return PROGRAM_MIB + (bodies + MAX_MEMORY + work_items * COSTLY_BODY) / MIB
