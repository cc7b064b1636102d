"""Events of one crawl, and what its summary says of them."""

from pathlib import Path
from typing import Any

from handlers.files import fingerprint
from tests.handlers.deliveries import payload

JOB = "019f2c10-0001-7a00-8b00-000000001eef"


def summary_of(output: Path, name: str = f"crawl-{JOB}") -> str:
    return (output / "jobs" / f"{name}.md").read_text(encoding="utf-8")


def header_of(summary: str) -> dict[str, str]:
    head = summary.split("---\n")[1]
    return {line.partition(": ")[0]: line.partition(": ")[2].strip('"') for line in head.splitlines()}


def page(name: str, url: str, **values: Any) -> dict[str, Any]:
    """Return a page event of the job, of a delivery of its own."""
    key = fingerprint(f"{name} {url}")
    return payload(name, data__0__metadata__sourceURL=url, webhookId=key) | values


def pages_in(output: Path) -> dict[str, str]:
    return {
        name.removeprefix("pages_"): number
        for name, number in header_of(summary_of(output)).items()
        if name.startswith("pages_")
    }
