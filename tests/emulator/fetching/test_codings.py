"""Content codings: what comes out is bounded, whatever goes in."""

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.fetching.exchange import ACCEPTED_CODINGS, BrokenCoding, decoded

PACKED = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
"""What makes each coding."""


def test_only_what_is_understood_is_asked_for() -> None:
    """Each coding in the header can be decoded."""
    assert ACCEPTED_CODINGS.split(", ") == list(PACKED)


@given(data=st.binary(max_size=2_000), limit=st.integers(1, 3_000))
def test_what_was_packed_comes_out_up_to_the_limit(data: bytes, limit: int) -> None:
    for coding, pack in PACKED.items():
        assert decoded(pack(data), [coding], limit) == data[:limit], coding


@given(data=st.binary(max_size=300))
def test_anything_is_decoded_or_broken(data: bytes) -> None:
    for coding in PACKED:
        try:
            assert len(decoded(data, [coding], 1_000)) <= 1_000
        except BrokenCoding:
            continue


@pytest.mark.parametrize("coding", PACKED)
def test_what_was_cut_gives_what_it_has(coding: str) -> None:
    data = random.Random(7).randbytes(300_000)  # several blocks: the last one is cut
    packed = PACKED[coding](data)[:-30]

    assert data.startswith(decoded(packed, [coding], 400_000, cut=True)[:1_000])
    with pytest.raises(BrokenCoding):
        decoded(packed, [coding], 400_000)


@pytest.mark.parametrize("coding", PACKED)
def test_a_little_that_stands_for_a_lot_is_not_unpacked(coding: str) -> None:
    """64 MiB of zeros; what comes out is the limit, and the memory for it is bounded."""
    packed = _zeros(coding)

    tracemalloc.start()
    try:
        assert decoded(packed, [coding], 1_000_000) == bytes(1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def _zeros(coding: str) -> bytes:
    piece, count = bytes(1 << 20), 64
    match coding:
        case "br":
            stream = brotli.Compressor(quality=1)
            return b"".join([*(stream.process(piece) for _ in range(count)), stream.finish()])
        case "zstd":
            packer = zstandard.ZstdCompressor(level=1).compressobj()
            return b"".join([*(packer.compress(piece) for _ in range(count)), packer.flush()])
    zipped = zlib.compressobj(1, wbits=31 if coding == "gzip" else 15)
    return b"".join([*(zipped.compress(piece) for _ in range(count)), zipped.flush()])


def test_a_million_empty_members_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member that ends copies what is left of its piece, so a flood of them would take quadratic time."""
    made = 0
    make = zlib.decompressobj

    def counted(bits: int) -> object:
        nonlocal made
        made += 1
        return make(bits)

    monkeypatch.setattr(zlib, "decompressobj", counted)

    assert decoded(gzip.compress(b"") * 100_000, ["gzip"], 1_000) == b""
    assert made <= 1_001
