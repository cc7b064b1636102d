"""Run the proofs: `python -m tests.proofs [NAME] [--short]`; without a name all of them, one after the other.

    attacks      large bodies, many and slow clients, leaks, locks, a full disk, stops: survived without help
    fuzz         a million mutated requests: one right answer to each, nothing lost, bounded memory
    kill         SIGKILL at any moment loses nothing that was acknowledged
    machines     the same with PostgreSQL, three web processes and three workers, whose server breaks too
    failover     the primary of two PostgreSQL servers is lost: what was acknowledged, and goes on
    bloat        rounds of load and pruning on PostgreSQL: dead rows and tables stay bounded
    growth       acks and claims on PostgreSQL read as much with a million deliveries stored as with none
    versions     the contract of stores on every version of PostgreSQL that is installed
    soak         hours of load and restarts: nothing is lost, and memory and open files stay bounded
    sdk          the end-to-end suite of the service's SDK, against the emulator
    extraction   how much of forty made pages the rules find, and how much of it is right
    js-sdk       the same of its SDK for JavaScript, by npm
    model        random histories of work on every store, compared with a model of the rules
    properties   all property tests of the suite, with many more examples

Each has flags of its own: `python -m tests.proofs kill --help`. `--short` is what `.ci/run` runs.
"""

import sys
import time
from collections.abc import Callable, Sequence

from tests.emulator.extraction import quality
from tests.proofs import attacks, bloat, depth, failover, fuzz, growth, js_sdk, kill, machines, sdk, soak, versions

PROOFS: dict[str, Callable[[Sequence[str]], None]] = {
    "attacks": attacks.main,
    "fuzz": fuzz.main,
    "kill": kill.main,
    "machines": machines.main,
    "failover": failover.main,
    "bloat": bloat.main,
    "growth": growth.main,
    "versions": versions.main,
    "soak": soak.main,
    "sdk": sdk.main,
    "extraction": quality.main,
    "js-sdk": js_sdk.main,
    "model": depth.model,
    "properties": depth.properties,
}


def main(arguments: Sequence[str]) -> None:
    """Run one proof with its flags, or all with `--short` at most; each ends the program where it fails."""
    if arguments and arguments[0] in PROOFS:
        PROOFS[arguments[0]](arguments[1:])
    elif set(arguments) <= {"--short"}:
        for name, proof in PROOFS.items():
            started = time.monotonic()
            sys.stdout.write(f"\n-- {name}\n")
            proof(arguments)
            sys.stdout.write(f"{name} took {time.monotonic() - started:.0f} s\n")
    else:
        sys.stdout.write(str(__doc__))
        sys.exit(0 if arguments == ["--help"] else 2)


if __name__ == "__main__":
    main(sys.argv[1:])
