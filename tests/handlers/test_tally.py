"""Counting is right for every order of deliveries, for repeats, for several at one time, and after crashes."""

import multiprocessing
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers import jobs, tally
from receiver.service.samples import job_story
from tests.handlers.deliveries import NOON, fresh_output, handle, payload
from tests.handlers.summaries import page, pages_in, summary_of


@settings(max_examples=settings().max_examples // 3)
@given(st.randoms(use_true_random=False), st.sampled_from(["crawl", "batch_scrape", "extract", "agent"]))
def test_neither_order_nor_repeats_change_the_summary(rng: random.Random, family: str) -> None:
    """The same deliveries, some of them again and all of them shuffled, end in the same bytes."""
    story = list(enumerate(job_story(family, 15, random.Random(1))))
    with fresh_output() as output:
        expected = _summary_after(output, story)
    shuffled = story + rng.sample(story, len(story) // 2)
    rng.shuffle(shuffled)
    with fresh_output() as output:
        assert _summary_after(output, shuffled) == expected


def test_many_threads_can_count_at_once(output: Path) -> None:
    """Nothing is lost, nothing counts twice, and the summary that stays is the last one."""
    story = list(enumerate(job_story("crawl", 60, random.Random(1))))
    with fresh_output() as alone:
        expected = _summary_after(alone, story)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(_handle_all, [event]) for event in story * 2]:
            done.result()

    (path,) = (output / "jobs").glob("*.md")
    assert path.read_text(encoding="utf-8") == expected


def test_many_processes_can_count_at_once(output: Path) -> None:
    """Several workers on one machine share the output."""
    story = list(enumerate(job_story("crawl", 40, random.Random(1))))
    with fresh_output() as alone:
        expected = _summary_after(alone, story)

    with multiprocessing.get_context("spawn").Pool(3) as workers:
        workers.map(_handle_all, [story[part::3] for part in range(3)], chunksize=1)

    (path,) = (output / "jobs").glob("*.md")
    assert path.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("step", ["count", "read", "replace_file"])
def test_the_next_run_repairs_a_crash_at_any_step(output: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The delivery counts once, and the summary has it."""
    with monkeypatch.context() as patch:
        patch.setattr(jobs, step, _crash)
        with pytest.raises(KeyboardInterrupt):
            handle(jobs.router, payload("crawl.page"))

    handle(jobs.router, payload("crawl.page"))

    assert pages_in(output)["good"] == "1"
    assert "| crawl.page | 1 |" in summary_of(output)


def test_an_error_in_the_middle_of_counting_counts_nothing(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery is counted completely or not at all."""
    with monkeypatch.context() as patch:
        patch.setattr(tally, "_count_page", _crash)
        with pytest.raises(KeyboardInterrupt):
            handle(jobs.router, payload("crawl.page"))

    handle(jobs.router, payload("crawl.completed"))

    assert "crawl.page" not in summary_of(output)


def test_the_work_per_delivery_does_not_grow_with_the_job(output: Path) -> None:
    """Counted in steps of SQLite's machine, a job of a thousand pages costs as much as one of ten."""

    def steps_of(number: int) -> int:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        db = tally.open_tally(output / "jobs.db")
        db.set_progress_handler(step, 1)
        handle(jobs.router, page("crawl.page.error", f"https://example.com/{number}"))
        db.set_progress_handler(None, 1)
        return steps

    for number in range(10):
        handle(jobs.router, page("crawl.page.error", f"https://example.com/{number}"))
    few = steps_of(10)
    for number in range(11, 1000):
        handle(jobs.router, page("crawl.page.error", f"https://example.com/{number}"))

    assert steps_of(1000) <= few


def test_a_removed_output_folder_is_made_again(output: Path) -> None:
    """A worker goes on after somebody has deleted the folder."""
    handle(jobs.router, page("crawl.page", "https://example.com/1"))
    for path in [*output.glob("jobs.db*"), *output.glob("jobs/*.md")]:
        path.unlink()

    handle(jobs.router, page("crawl.page", "https://example.com/2"))

    assert pages_in(output)["good"] == "1"


def test_an_attempt_fails_while_another_program_locks_the_tally(output: Path) -> None:
    """Nothing is half done, and the next attempt succeeds."""
    output.mkdir(exist_ok=True)
    tally.open_tally(output / "jobs.db", busy_seconds=0)
    handle(jobs.router, page("crawl.page", "https://example.com/1"))
    other = sqlite3.connect(output / "jobs.db", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        handle(jobs.router, page("crawl.page", "https://example.com/2"))
    other.close()

    handle(jobs.router, page("crawl.page", "https://example.com/2"))

    assert pages_in(output)["good"] == "2"


def test_another_file_in_place_of_the_tally_is_an_error_and_stays(output: Path) -> None:
    """It may be somebody's file."""
    output.mkdir()
    (output / "jobs.db").write_text("not a database, but a text of some length" * 50)

    with pytest.raises(sqlite3.DatabaseError):
        handle(jobs.router, payload("crawl.page"))

    assert (output / "jobs.db").read_text().startswith("not a database")


def _summary_after(output: Path, story: list[tuple[int, dict[str, Any]]]) -> str:
    _handle_all(story)
    (path,) = (output / "jobs").glob("*.md")
    return path.read_text(encoding="utf-8")


def _handle_all(story: list[tuple[int, dict[str, Any]]]) -> None:
    for minute, event in story:
        handle(jobs.router, event, at=NOON + timedelta(minutes=minute))


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
