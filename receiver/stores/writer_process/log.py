"""The log of a web process whose writes another process makes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from receiver.core.grouped_log import GroupedLog
from receiver.core.ports.log import DeliveryLog
from receiver.stores import open_store
from receiver.stores.writer_process.process import WriterProcess
from receiver.stores.writer_process.starting import StartedWriter, writer_command

_AT_ONCE = 2
"""While the writer syncs one batch, the next one is on its way to it already."""
PART = 32
"""So many of the deliveries of one turn go to the writer before the turn ends, so that both processes work. The
senders of one batch come back together: without this, one process would wait for the other. While it writes, fewer
wait for more: beside a worker that is worth 8 % of the acks at 1 KB."""
MAX_ITEMS = 512 // _AT_ONCE
"""Deliveries in one batch."""
MAX_BYTES = 8 * 1024 * 1024 // _AT_ONCE
"""Bytes in one batch, so that small deliveries do not wait for many large ones."""


@asynccontextmanager
async def open_writer_process(
    store: str, *, log_level: str, json_logs: bool, started: StartedWriter | None = None
) -> AsyncIterator[DeliveryLog]:
    """Open the store at this address for appending, in another process that ends with the block.

    It is the one that was `started` for this, by the same command, or a new one.
    Raises what opening the store raises. A process that dies is started again; a batch that it had fails with
    StoreError, as nobody knows whether it was kept. One that hangs is killed at the end.
    """
    command = writer_command(store, log_level=log_level, json_logs=json_logs)
    writer = WriterProcess(command, open_store(store).exists, started)
    await writer.start()
    appending = GroupedLog(
        writer.write, max_items=MAX_ITEMS, max_bytes=MAX_BYTES, at_once=_AT_ONCE, part=PART, look=writer.look
    )
    try:
        yield appending
    finally:
        await writer.stop(after=appending.aclose())
