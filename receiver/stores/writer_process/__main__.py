"""The process that writes: `python -m receiver.stores.writer_process STORE LEVEL FORMAT DESCRIPTOR`.

STORE is the address of the store, LEVEL is the log level, FORMAT is `json` or `text`, and DESCRIPTOR is a socket to
the web process. It writes the batches that the web process sends, until that closes the socket or ends.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import cast

from receiver.core.event_loop import run
from receiver.core.log_lines import event_log
from receiver.core.logs import configure_logs, log_crashes
from receiver.core.ports.log import LogItem, WritableLog
from receiver.errors import ConfigurationError, StoreError
from receiver.stores import open_store
from receiver.stores.writer_process.messages import Frames, LogBatch, Message, Opened, WriterFailed, Written

log = event_log("receiver.stores.writer_process")


def main(store: str, level: str, log_format: str, descriptor: str) -> None:
    """Write until the socket ends. Signals are for the web process, which knows when the last batch is written."""
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    configure_logs(level=level, as_json=log_format == "json")
    log_crashes()
    run(_serve(store, socket.socket(fileno=int(descriptor))))


async def _serve(store: str, connection: socket.socket) -> None:
    batches = _Batches()
    loop = asyncio.get_running_loop()
    _, frames = await loop.create_unix_connection(lambda: Frames(batches.add, batches.end), sock=connection)
    try:
        opening = cast("AbstractAsyncContextManager[WritableLog]", open_store(store).log())
        async with opening as opened:
            frames.send(Opened())
            while waiting := await batches.next():
                for answer in await _written(opened, waiting):
                    frames.send(answer)
    except (StoreError, ConfigurationError) as exc:
        frames.send(WriterFailed(str(exc), is_final=isinstance(exc, ConfigurationError)))
    finally:
        frames.transport.close()


async def _written(opened: WritableLog, batches: Sequence[LogBatch]) -> Sequence[Message]:
    """Write batches in one transaction, and return the answer to each."""
    items: list[LogItem] = []
    for batch in batches:
        items += (*batch.deliveries, *batch.quarantined, *batch.probes)
    try:
        results = await opened.write(items)
    except StoreError as exc:
        return [WriterFailed(str(exc))] * len(batches)
    except Exception:
        log.exception("batch_not_written")
        return [WriterFailed("the process that writes failed; the log says why")] * len(batches)
    outcomes = iter([receipt.outcome for receipt in results if receipt is not None])
    return [Written(list(islice(outcomes, len(batch.deliveries)))) for batch in batches]


class _Batches:
    """The batches that wait to be written."""

    def __init__(self) -> None:
        self._waiting: list[LogBatch] = []
        self._has_ended = False
        self._changed = asyncio.Event()

    def add(self, message: Message) -> None:
        """Let a batch wait."""
        if isinstance(message, LogBatch):
            self._waiting.append(message)
            self._changed.set()

    def end(self) -> None:
        """Note that no more comes."""
        self._has_ended = True
        self._changed.set()

    async def next(self) -> Sequence[LogBatch]:
        """Return all that wait, as soon as there is one; nothing when no more comes."""
        while not self._waiting and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        waiting, self._waiting = self._waiting, []
        return waiting


if __name__ == "__main__":
    main(*sys.argv[1:])
