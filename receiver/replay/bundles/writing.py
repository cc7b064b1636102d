"""Writes a bundle in large pieces, with gzip or without."""

from typing import IO

from receiver.core.deliveries import Delivery
from receiver.replay.bundles.format import Header, delivery_line, header_line
from receiver.replay.bundles.packing import packed

_PIECE = 2**20


class BundleWriter:
    """Writes a header at once, then one delivery after the other. `finish` writes the rest."""

    def __init__(self, stream: IO[bytes], header: Header, *, pack: bool) -> None:
        self.count = 0
        self._stream = stream
        self._pack = pack
        self._lines = [header_line(header)]
        self._length = 0

    def add(self, delivery: Delivery, duplicates: int) -> None:
        """Write one more delivery. The stream may see it later."""
        line = delivery_line(delivery, duplicates)
        self._lines.append(line)
        self._length += len(line)
        self.count += 1
        if self._length >= _PIECE:
            self.finish()

    def finish(self) -> None:
        """Write everything that was added to the stream."""
        piece = b"".join(self._lines)
        if piece:
            self._stream.write(packed(piece) if self._pack else piece)
        self._lines.clear()
        self._length = 0
