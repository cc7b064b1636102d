"""A process that reads pages: `python -m …content.reader_child`, requests on standard input, answers on output.

Both have their length before them. An answer is JSON: a process that a page has taken over can say what it likes,
but it can make the emulator run nothing.
"""

import contextlib
import json
import pickle
import sys
import time
from dataclasses import asdict
from typing import Any, BinaryIO

from receiver.service.emulator.content.page import read_page
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import FetchedPage, ScrapePlan

try:
    import resource
except ImportError:  # pragma: no cover - Windows cannot limit it
    resource = None  # type: ignore[assignment]

_MEMORY = 3 << 30
_CPU_SECONDS = 300
"""For each page, also if the emulator was killed meanwhile: no scrape lasts longer."""
_PREFIX = 8


def main() -> int:
    """Answer requests until there are no more."""
    _limit_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(head := requests.read(_PREFIX)) == _PREFIX:
        _limit_time()
        page, plan = pickle.loads(requests.read(int.from_bytes(head)))  # noqa: S301 - the emulator's own
        answer = json.dumps(_answer(page, plan)).encode()
        answers.write(len(answer).to_bytes(_PREFIX) + answer)
        answers.flush()


def _answer(page: FetchedPage, plan: ScrapePlan) -> dict[str, Any]:
    try:
        content = read_page(page, plan)
    except ScrapeFailed as failed:
        return {"code": failed.code, "text": str(failed)}
    return asdict(content)


def _limit_memory() -> None:
    with contextlib.suppress(ValueError, OSError):
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _limit_time() -> None:
    with contextlib.suppress(ValueError, OSError):
        if resource is not None:
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _CPU_SECONDS, hard))


if __name__ == "__main__":
    sys.exit(main())
