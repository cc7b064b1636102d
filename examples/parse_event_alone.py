"""Reads payloads with no server, no store and no settings: `parse_event` is a plain function of bytes.

Every event has the same few attributes, and a class of its own that types the rest. Run it:

    python examples/parse_event_alone.py examples/crawl.page.json

Without file names it reads standard input, as in `receiver events raw ID | python examples/parse_event_alone.py`.
"""

import sys
from pathlib import Path

from receiver import Malformed, parse_event
from receiver.events import Event, MonitorPage, PageEvent, UnknownEvent


def describe(event: Event) -> str:
    """Return what kind of event this is and the most useful thing in it."""
    match event:
        case PageEvent(failed=True):
            return f"{event.url} failed: {event.error}"
        case PageEvent(page=page) if page is not None:
            return f"{event.url} answered {event.status_code}, {len(page.markdown or '')} characters of Markdown"
        case MonitorPage(page=checked):
            return f"{checked.url} is {checked.status}"
        case UnknownEvent():
            return f"a type this version does not know, with {len(event.model_extra or {})} keys of its own"
        case _:
            return f"success: {event.success}, error: {event.error}"


def main(names: list[str]) -> int:
    """Print a line or two for each payload; return 1 if one of them is no payload."""
    worst = 0
    for name in names or ["-"]:
        body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        try:
            event = parse_event(body)
        except Malformed as exc:
            print(f"{name}: {exc}", file=sys.stderr)
            worst = 1
        else:
            print(f"{event.type} of job {event.job_id} ({type(event).__name__})\n  {describe(event)}")
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
