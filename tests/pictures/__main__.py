"""Makes pictures: `python -m tests.pictures [NAME ...]`; without a name all of them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tests.pictures
from tests.pictures import console, demo, outage, states, way

FOLDER = Path(__file__).parents[2] / "examples"
PICTURES: dict[str, Callable[[Path], None]] = {
    "console": console.make,
    "outage": outage.make,
    "states": states.make,
    "way": way.make,
    "demo": demo.make,
}


def main(names: Sequence[str]) -> int:
    """Make these pictures, or all; return 2 for a name that does not exist."""
    if not set(names) <= set(PICTURES):
        sys.stderr.write(str(tests.pictures.__doc__))
        return 2
    for name in names or PICTURES:
        PICTURES[name](FOLDER)
        sys.stdout.write(f"made {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
