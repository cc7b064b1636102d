"""Quantiles of durations, counted in buckets: constant memory, and a known error."""

from collections.abc import Iterator

_BITS = 10
"""A bucket is at most a 512th of its values wide."""


class Quantiles:
    """Counts durations in whole microseconds, and finds quantiles of them.

    A quantile is one of the durations that were added. It is never below the true one, and at most 0.2 % above it.
    It is exact if all durations of its bucket are equal, and for the largest duration.
    """

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, list[int]] = {}

    def add(self, micros: int) -> None:
        """Count one duration."""
        self.count += 1
        shift = micros.bit_length() - _BITS
        number = (shift << _BITS) + (micros >> shift) if shift > 0 else micros
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [1, micros]
            return
        bucket[0] += 1
        if micros > bucket[1]:
            bucket[1] = micros

    def at(self, share: float) -> int | None:
        """Return the smallest duration that this share of all does not exceed; None if nothing was counted."""
        wanted = share * self.count
        return next((micros for micros, passed in self.curve() if passed >= wanted), None)

    def curve(self) -> Iterator[tuple[int, int]]:
        """Yield durations in their order, each with the number of durations that do not exceed it."""
        passed = 0
        for number in sorted(self._buckets):
            count, largest = self._buckets[number]
            passed += count
            yield largest, passed
