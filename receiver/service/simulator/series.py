"""Counts over time, in a limited number of steps that become wider."""

MAX_STEPS = 240
_FIRST_WIDTH_US = 1_000_000


class Series:
    """Counts things of several kinds in steps of equal length, at most 240 of them.

    `width_us` is one second at first. Whenever a moment lies after the last step, neighbouring steps are joined.
    """

    def __init__(self, kinds: int) -> None:
        self.width_us = _FIRST_WIDTH_US
        self._steps = [[0] * kinds for _ in range(MAX_STEPS)]

    def add(self, moment_us: int, kind: int) -> None:
        """Count one thing of this kind at this moment."""
        step = moment_us // self.width_us
        while step >= MAX_STEPS:
            self._join()
            step = moment_us // self.width_us
        self._steps[step][kind] += 1

    def rows(self) -> list[tuple[int, list[int]]]:
        """Return the beginning of each step in microseconds and its counts, up to the last step with a count."""
        used = max((number for number, counts in enumerate(self._steps, start=1) if any(counts)), default=0)
        return [(number * self.width_us, list(counts)) for number, counts in enumerate(self._steps[:used])]

    def _join(self) -> None:
        self.width_us *= 2
        nothing = [0] * len(self._steps[0])
        pairs = zip(self._steps[::2], self._steps[1::2], strict=True)
        joined = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]
        self._steps = joined + [list(nothing) for _ in joined]
