"""A page's file is complete at every moment, and an older delivery never replaces it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from handlers.pages import router
from tests.handlers.deliveries import LATER, NOON, handle, page_of, payload
from tests.handlers.page_files import PRICES, body_of


def test_the_same_address_is_written_again(output: Path) -> None:
    """A later crawl brings the page up to date."""
    handle(router, page_of(PRICES, data__0__markdown="old"), at=NOON)
    handle(router, page_of(PRICES, data__0__markdown="new"), at=LATER)

    assert body_of(output / "pages/example.com/prices.md") == "new"


def test_an_older_delivery_that_is_handled_later_changes_nothing(output: Path) -> None:
    """What counts is when a delivery arrived, not when its handler ran."""
    handle(router, page_of(PRICES, data__0__markdown="new"), at=LATER)
    handle(router, page_of(PRICES, data__0__markdown="old"), at=NOON)

    assert body_of(output / "pages/example.com/prices.md") == "new"


def test_a_repeated_delivery_leaves_the_same_bytes(output: Path) -> None:
    """Also when it was mended by hand in between, as a replay is meant to restore it."""
    path = output / "pages/example.com/prices.md"
    handle(router, payload("crawl.page"))
    first = path.read_bytes()
    path.write_bytes(b"spoilt")

    handle(router, payload("crawl.page"))

    assert path.read_bytes() == first


def test_a_crash_while_writing_leaves_the_old_file_whole(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next run completes the work and leaves nothing else behind."""
    path = output / "pages/example.com/prices.md"
    handle(router, page_of(PRICES, data__0__markdown="old"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", _crash)
        with pytest.raises(KeyboardInterrupt):
            handle(router, page_of(PRICES, data__0__markdown="new"), at=LATER)
    assert body_of(path) == "old"

    handle(router, page_of(PRICES, data__0__markdown="new"), at=LATER)

    assert body_of(path) == "new"
    assert sorted(found.name for found in path.parent.iterdir()) == ["prices.md"]


def test_many_threads_can_write_at_once(output: Path) -> None:
    """Every page is there, whole, and of every page the delivery that arrived last."""
    urls = [f"https://example.com/p{number}" for number in range(10)]
    work = [
        (page_of(url, data__0__markdown=f"{minute} {url} " * 500), NOON + timedelta(minutes=minute))
        for minute in (3, 1, 4, 0, 2)
        for url in urls
    ]

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(handle, router, event, at=at) for event, at in work]:
            done.result()

    for url in urls:
        path = output / "pages/example.com" / f"{url.rpartition('/')[2]}.md"
        assert body_of(path) == f"4 {url} " * 500


def test_a_reader_never_sees_half_a_file(output: Path) -> None:
    """While a page is written again and again, every look at it finds one of its contents."""
    texts = ["a" * 200_000, "b" * 200_000]
    handle(router, page_of(PRICES, data__0__markdown=texts[0]))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in texts:
                handle(router, page_of(PRICES, data__0__markdown=text))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {body_of(output / "pages/example.com/prices.md") for _ in range(100)}
    finally:
        stop.set()
        writer.join()

    assert seen <= set(texts)


def _crash(*_: object) -> None:
    raise KeyboardInterrupt
