"""What each operation of the admin API does, as `GET /_emulator` tells it."""

from typing import Any

Json = dict[str, Any]

MANUAL: dict[tuple[str, str], tuple[str, Json]] = {
    ("GET", "/_emulator"): ("List the operations of this API.", {}),
    ("GET", "/_emulator/health"): ("Tell that the emulator runs, and its time.", {}),
    ("POST", "/_emulator/reset"): (
        "Stop all jobs and forget all but the time: jobs, monitors, pages, webhooks, credits, faults, calls.",
        {},
    ),
    ("GET", "/_emulator/journal"): (
        "List the last calls of the API, newest first.",
        {"query": {"limit": "1 to 1000, by default 100", "before": "a seq", "path": "how the path begins"}},
    ),
    ("GET", "/_emulator/deliveries"): (
        "List webhooks with their attempts, newest first, and count them by state.",
        {"query": {"limit": "1 to 1000, by default 100", "before": "a seq", "job": "the id of a job or check"}},
    ),
    ("GET", "/_emulator/faults"): ("List the faults that are still to come.", {}),
    ("POST", "/_emulator/faults"): (
        "Ask for a fault of the next calls, webhooks or jobs.",
        {
            "bodies": [
                {"operation": "scrape", "status": 429, "times": 2, "retryAfter": 7},
                {"webhook": "crawl.*", "times": 5, "copies": 2, "late": "1m", "shuffle": "30s"},
                {"job": "crawl", "after": 3, "error": "The site went away"},
            ]
        },
    ),
    ("DELETE", "/_emulator/faults"): ("Forget all faults that are still to come.", {}),
    ("GET", "/_emulator/clock"): ("Tell the emulator's time, and how fast it passes.", {}),
    ("POST", "/_emulator/clock"): (
        "Move the clock forward; all that is due on the way happens first.",
        {"bodies": [{"advance": "1h30m"}]},
    ),
    ("POST", "/_emulator/credits"): (
        "Set the credits that a team has left: the one of a key or an id, or without both all of them.",
        {"bodies": [{"credits": 0}, {"credits": 500, "key": "fc-any"}]},
    ),
}
"""By method and path: a sentence, and examples of the query or the body."""


def manual() -> Json:
    """Return the answer to `GET /_emulator`."""
    operations = [
        {"method": method, "path": path, "about": about, **examples}
        for (method, path), (about, examples) in MANUAL.items()
    ]
    return {"success": True, "operations": operations}
