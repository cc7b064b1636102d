"""A process that works: `python -m …working.child`, requests on standard input, answers on standard output.

A request is a function with its arguments. An answer is JSON: a process that a page has taken over can answer
anything, but cannot make the emulator run anything.
"""

import contextlib
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.working.processes import PREFIX, pack_answer

try:
    import resource
except ImportError:  # pragma: no cover - Windows cannot limit it
    resource = None  # type: ignore[assignment]

_MEMORY = 3 << 30
_CPU_SECONDS = 300
"""For each request, even if the emulator was killed: no scrape lasts longer."""


def main() -> int:
    """Limit the memory, and answer requests until there are no more."""
    with contextlib.suppress(ValueError, OSError):
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(head := requests.read(PREFIX)) == PREFIX:
        _limit_time()
        function, arguments = pickle.loads(requests.read(int.from_bytes(head)))  # noqa: S301 - the emulator's own
        answers.writelines(pack_answer(_answer(function, arguments)))
        answers.flush()


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return {"value": function(*arguments)}
    except ScrapeFailed as failed:
        return {"code": failed.code, "text": str(failed)}


def _limit_time() -> None:
    with contextlib.suppress(ValueError, OSError):
        if resource is not None:
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _CPU_SECONDS, hard))


if __name__ == "__main__":
    sys.exit(main())
