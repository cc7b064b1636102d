"""The `receiver` command on a machine whose clocks are wrong: `python shifted.py SECONDS COMMAND ...`."""

import sys
from datetime import datetime, timedelta

from receiver.cli.main import main
from receiver.core.clock import SystemClock


def shift(by: timedelta) -> None:
    """Let the clocks of this process be ahead by so much."""
    now, steady = SystemClock.now, SystemClock.steady

    def shifted_now(self: SystemClock) -> datetime:
        return now(self) + by

    def shifted_steady(self: SystemClock) -> datetime:
        return steady(self) + by

    SystemClock.now, SystemClock.steady = shifted_now, shifted_steady  # type: ignore[method-assign]


if __name__ == "__main__":
    shift(timedelta(seconds=float(sys.argv.pop(1))))
    main()
