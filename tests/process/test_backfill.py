"""A receiver that was down for longer than the sender's retries, and gets its pages from the service afterwards."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.harness import PATIENCE_SECONDS, STEADY, Deployment, Serving, post, until
from tests.replay.backfill.world import JOB, crawl, document, sent
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, Stub, serving

PAGES = 60
SEEN_BEFORE, SEEN_AFTER = range(20), range(50, 60)
"""The pages whose webhooks found the receiver up. The retries of the others have ended in between."""

HANDLERS = """
import os
from receiver import Context, Router
from receiver.events import Event

router = Router()
out = os.open("handled", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on("*")
async def record(event: Event, ctx: Context) -> None:
    page = event.data[0].url if event.data else event.type
    os.write(out, f"{page}\\n".encode())
"""


@contextmanager
def service(*, pages: int = PAGES, at_once: int = 25) -> Iterator[Stub]:
    """Serve a finished crawl, some pages at a time."""
    documents = [document(number) for number in range(pages)]
    answers = crawl().answers

    def answer(connection: Connection) -> None:
        path, _, query = connection.path.partition("?")
        skip = int(query.removeprefix("skip=") or 0) if query.startswith("skip=") else 0
        if path.endswith("/errors"):
            connection.answer(200, answers[path])
            return
        found = {**answers[path], "data": documents[skip : skip + at_once]}
        if skip + at_once < pages:
            found["next"] = f"https://elsewhere.example{path}?skip={skip + at_once}"
        connection.answer(200, found)

    with serving(answer) as stub:
        yield stub


async def sends(to: Serving, number: int) -> None:
    """Send the webhook of a page."""
    assert (await post(to.port, sent("crawl.page", f"webhook-{number}", [document(number)]).body)).status == 200


async def test_events_without_a_webhook_are_handled_exactly_once(tmp_path: Path) -> None:
    """Each page, and the end of the job: whatever came before, after, twice, and late after all."""
    expected = Counter([f"https://example.com/{number}" for number in range(PAGES)] + ["crawl.completed"])
    with service() as stub:
        deployment = Deployment(tmp_path, base_url=stub.address, api_key=KEY, **STEADY)
        deployment.write_handlers(HANDLERS)
        async with deployment.serve() as serving_:
            for number in SEEN_BEFORE:
                await sends(serving_, number)
            await deployment.all_handled()

        async with deployment.serve() as serving_:
            for number in SEEN_AFTER:
                await sends(serving_, number)
            await deployment.all_handled()
            planned = deployment.run("backfill", "--job", JOB, "--dry-run")
            assert (planned.code, deployment.handled().total()) == (0, len(SEEN_BEFORE) + len(SEEN_AFTER))
            assert "31 events to import, of 1 compared job" in planned.text

            done = deployment.run("backfill", "--job", JOB, "--yes")
            assert (done.code, "imported 31 events" in done.text) == (0, True), done.text
            again = deployment.run("backfill", "--since", "1d", "--yes")
            assert (again.code, "0 events to import" in again.text) == (0, True), again.text
            await deployment.all_handled()
            assert deployment.handled() == expected

            for number in (30, 40):  # sent once more, however late
                await sends(serving_, number)
            await deployment.all_handled()
            for _ in range(2):
                await serving_.line("late_webhook_skipped")
        assert KEY not in serving_.output + done.text + planned.text

    assert deployment.handled() == expected
    origins = deployment.rows("SELECT origin, count(*) FROM deliveries GROUP BY origin ORDER BY origin")
    assert origins == [("backfill", 31), ("sender", 32)]


async def test_fetched_events_are_handled_when_they_are_replayed(tmp_path: Path) -> None:
    """Not before, though a worker runs; and by its handlers like everything else that is replayed."""
    expected = Counter([f"https://example.com/{number}" for number in range(PAGES)] + ["crawl.completed"])
    with service() as stub:
        deployment = Deployment(tmp_path, base_url=stub.address, api_key=KEY, **STEADY)
        deployment.write_handlers(HANDLERS)
        async with deployment.serve() as serving_:
            await sends(serving_, 0)
            fetched = deployment.run("jobs", "fetch", JOB)
            assert (fetched.code, f"{PAGES} new and stored, 1 stored before" in fetched.text) == (0, True)
            await sends(serving_, 1)  # arrives behind them, so that the worker has seen them when it is handled
            await deployment.all_handled()
            seen = ["https://example.com/0", "https://example.com/1"]
            assert sorted(deployment.handled().elements()) == seen

            assert deployment.run("replay", "--job", JOB, "--enqueue", "--yes").code == 0
            await deployment.all_handled()
    assert deployment.handled() == expected + Counter([seen[0], seen[1], seen[1]])


async def test_ctrl_c_while_a_job_is_stored_finishes_the_current_part(tmp_path: Path) -> None:
    """It says how much is stored, which is the truth, and the same command continues with the rest."""
    pages = 12_000

    def count() -> int:
        return int(deployment.rows("SELECT count(*) FROM deliveries WHERE origin = 'import'")[0][0])

    with service(pages=pages, at_once=2_000) as stub:
        deployment = Deployment(tmp_path, base_url=stub.address, api_key=KEY)
        async with deployment.serve("--no-worker") as receiver:
            await sends(receiver, 0)
            async with deployment.start("jobs", "fetch", JOB) as command:
                await until(lambda: count() > 0, "something to be stored")
                command.send_signal(signal.SIGINT)
                assert await command.exit_code() == 130
        stored = count()
        assert 0 < stored < pages
        assert (
            f"stopped: {stored:,} of 12,000 events stored; the same command continues with the rest"
            in command.output
        )
        assert "Traceback" not in command.output

        again = deployment.run("jobs", "fetch", JOB)
        assert f"{pages - stored:,} new and stored, {stored + 1:,} stored before" in again.text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("backfill", "--job", JOB, "--yes"), "stopped: nothing was changed"),
        (("jobs", "fetch", JOB), "stopped: nothing was changed"),
        (("jobs", "fetch", JOB, "--to", "found"), "stopped: wrote 0 documents to found"),
        (("start", "crawl", "https://example.com"), "the service may have started the job"),
        (("monitors", "run", "m-1"), ""),
    ],
)
async def test_ctrl_c_while_the_service_is_asked_changes_nothing(
    tmp_path: Path, args: tuple[str, ...], words: str
) -> None:
    """It says so and ends at once, with the exit code of an interrupt and without a traceback."""
    go_on = threading.Event()

    def hold(connection: Connection) -> None:
        go_on.wait(PATIENCE_SECONDS)
        connection.answer(404, {"error": "too late"})

    with serving(hold) as stub:
        url = "https://hooks.example.com"
        deployment = Deployment(tmp_path, base_url=stub.address, api_key=KEY, public_url=url)
        async with deployment.serve("--no-worker") as receiver:
            await sends(receiver, 1)
        async with deployment.start(*args) as command:
            await until(lambda: bool(stub.connections), "the service to be asked")
            command.send_signal(signal.SIGINT)
            assert await command.exit_code() == 130
            go_on.set()
        assert words in command.output
        assert "Traceback" not in command.output

    assert deployment.rows("SELECT count(*) FROM deliveries") == [(1,)]
