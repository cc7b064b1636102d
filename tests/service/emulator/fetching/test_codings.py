"""Content codings: what comes out is bounded, whatever goes in."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.service.emulator.fetching.codings import BrokenCoding, decoded


@given(data=st.binary(max_size=2_000), limit=st.integers(1, 3_000))
def test_what_was_packed_comes_out_up_to_the_limit(data: bytes, limit: int) -> None:
    assert decoded(gzip.compress(data), ["gzip"], limit) == data[:limit]
    assert decoded(zlib.compress(data), ["deflate"], limit) == data[:limit]


@given(data=st.binary(max_size=300))
def test_anything_is_decoded_or_broken(data: bytes) -> None:
    for coding in ("gzip", "deflate"):
        try:
            assert len(decoded(data, [coding], 1_000)) <= 1_000
        except BrokenCoding:
            continue


def test_what_was_cut_gives_what_it_has() -> None:
    packed = gzip.compress(bytes(range(256)) * 20)[:-30]

    assert decoded(packed, ["gzip"], 10_000, cut=True).startswith(bytes(range(256)))
    with pytest.raises(BrokenCoding):
        decoded(packed, ["gzip"], 10_000)


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
