"""Tests of the suite that look at random examples, at a greater depth than the suite does."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FROM_OUTSIDE = ["tests/flows/test_any_request.py", "tests/core/test_envelope.py"]
_MODEL = "tests/flows/test_dispatch_rules.py"


def model(arguments: Sequence[str]) -> None:
    """Compare random histories of work with the model of the rules, on each store."""
    examples = _examples("model", arguments, usual=5_000, short=20)
    run_tests([_MODEL, *_processes(arguments)], RULES_EXAMPLES=examples)


def properties(arguments: Sequence[str]) -> None:
    """Run every file with property tests; the short form takes those about requests from outside only."""
    examples = _examples("properties", arguments, usual=2_000, short=30)
    files = [
        str(path) for path in _ROOT.glob("tests/**/test_*.py") if "@given(" in path.read_text(encoding="utf-8")
    ]
    chosen = _FROM_OUTSIDE if "--short" in arguments else files
    run_tests([*chosen, *_processes(arguments)], PROPERTY_EXAMPLES=examples)


def _processes(arguments: Sequence[str]) -> list[str]:
    """Return the option of pytest for the short form: to start more processes takes longer than these tests."""
    return ["-n2"] if "--short" in arguments else []


def _examples(name: str, arguments: Sequence[str], *, usual: int, short: int) -> str:
    parser = argparse.ArgumentParser(prog=f"python -m tests.proofs {name}")
    parser.add_argument("--examples", type=int, help=f"of each test; {usual} unless given")
    parser.add_argument("--short", action="store_true", help=f"{short} examples")
    options = parser.parse_args(arguments)
    return str(options.examples or (short if options.short else usual))


def run_tests(files: Sequence[str], **environment: str) -> None:
    """Run pytest with these arguments and variables; end the program where a test fails."""
    inherited = {
        name: value for name, value in os.environ.items() if name != "CI"
    }  # there examples would not change
    command = [sys.executable, "-m", "pytest", "-q", *files]
    if code := subprocess.run(command, cwd=_ROOT, env=inherited | environment, check=False).returncode:
        sys.exit(code)
