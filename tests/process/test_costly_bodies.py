"""A body of so many values that its event would take gigabytes: it is dead, and everything beside it is done."""

import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from tests.process.fleet import deliver, page
from tests.process.harness import Deployment, until

HANDLERS = """
import resource
from receiver import Router

resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3, 2 * 1024**3))
router = Router()

@router.on("*")
async def work(event):
    len(event.data)
"""
COSTLY = b'{"success":true,"type":"crawl.page","id":"costly","webhookId":"costly-0","data":[%s{}]}' % (
    b"{}," * 2_800_000
)
"""A body of 8 MiB, which would take about 6 GiB."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
async def test_a_costly_body_is_dead_and_stops_no_worker(tmp_path: Path) -> None:
    """The worker lives on with 2 GiB, handles the others, and the store keeps the reason and the body."""
    deployment = Deployment(tmp_path)
    deployment.write_handlers(HANDLERS)
    pages = [page("good", number) for number in range(50)]
    async with deployment.serve() as serving:
        await deliver(serving.port, [*pages[:25], COSTLY, *pages[25:]])
        await until(lambda: deployment.unfinished() == 0, deployment.standing)

        assert "worker_ended" not in serving.output
    assert Counter(deployment.rows("SELECT state FROM work_items")) == {("done",): 50, ("dead",): 1}
    [(error,)] = deployment.rows("SELECT last_error FROM work_items WHERE state = 'dead'")
    assert "more than 256 MiB" in str(error)
    assert deployment.stored(["costly-0"]) == {"costly-0": sha256(COSTLY).digest()}
