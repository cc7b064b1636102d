"""The process that writes: `python -m receiver.stores.writer_process STORE LEVEL FORMAT DESCRIPTOR`.

STORE is the address of the store, LEVEL is the log level, FORMAT is `json` or `text`, and DESCRIPTOR is a socket to
the web process. It writes the batches that the web process sends, until that closes the socket or ends.
"""

import signal
import socket
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import cast

from receiver.core.ports.log import WritableLog, Write
from receiver.errors import ConfigurationError, StoreError
from receiver.runtime.log_lines import event_log
from receiver.runtime.logs import configure_logs, log_crashes
from receiver.runtime.processes import run
from receiver.stores import open_store
from receiver.stores.writer_process.messages import FrameSocket, LogBatch, Message, Opened, WriterFailed, Written

log = event_log("receiver.stores.writer_process")


def main(store: str, level: str, log_format: str, descriptor: str) -> None:
    """Write until the socket ends. Signals are for the web process, which knows when the last batch is written."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    configure_logs(level=level, as_json=log_format == "json")
    log_crashes()
    with socket.socket(fileno=int(descriptor)) as connection:
        # The loop has nothing to do while the thread of the store works, and a faster one takes longer to load.
        run(_serve(store, FrameSocket(connection)), fastest=False)


async def _serve(store: str, frames: FrameSocket) -> None:
    try:
        opening = cast("AbstractAsyncContextManager[WritableLog]", open_store(store).log())
        async with opening as opened:
            frames.send(Opened())
            await opened.in_thread(partial(_answer_batches, frames))
    except (StoreError, ConfigurationError) as exc:
        frames.send(WriterFailed(str(exc), is_final=isinstance(exc, ConfigurationError)))


def _answer_batches(frames: FrameSocket, write: Write) -> None:
    """Write one batch after the other in the thread of the store: hops to it cost 4 to 8 % of the acks."""
    # No batch stays in a variable while the next one is awaited: it can be large.
    while _answer_next(frames, write):
        pass


def _answer_next(frames: FrameSocket, write: Write) -> bool:
    batch = frames.receive()
    if not isinstance(batch, LogBatch):
        return False
    frames.send(_written(write, batch))
    return True


def _written(write: Write, batch: LogBatch) -> Message:
    """Write a batch, and return the answer to it."""
    try:
        results = write([*batch.deliveries, *batch.quarantined, *batch.probes])
    except StoreError as exc:
        return WriterFailed(str(exc))
    except Exception:
        log.exception("batch_not_written")
        return WriterFailed("the process that writes failed; the log says why")
    return Written([receipt.outcome for receipt in results if receipt is not None])


if __name__ == "__main__":
    main(*sys.argv[1:])
