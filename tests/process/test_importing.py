"""An import that is killed loses nothing that was there, and the next one goes on."""

import random
from pathlib import Path

import pytest

from receiver.replay.bundles.format import BundleWriter, Header
from tests.doubles import NOON, delivery
from tests.process.harness import Deployment, Load, until

DELIVERIES = 20_000
ROWS = "SELECT key, type, job_id, success, received_at, size, duplicates, origin, hex(headers), hex(body)"
CONTENT = f"{ROWS} FROM deliveries JOIN bodies USING (seq) WHERE origin = 'import' ORDER BY seq"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed bundle that takes some seconds to import."""
    path = tmp_path_factory.mktemp("bundle") / "bundle.gz"
    with path.open("wb") as stream:
        writer = BundleWriter(stream, Header(made_at=NOON, count=DELIVERIES), pack=True)
        for number in range(DELIVERIES):
            writer.add(delivery(f"k{number}"), number)
        writer.finish()
    return path


@pytest.fixture(scope="module")
def undisturbed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """What an import that nobody stops makes of it."""
    deployment = Deployment(tmp_path_factory.mktemp("undisturbed"))
    assert deployment.run("events", "import", str(bundle), "--yes").code == 0
    return deployment.rows(CONTENT)


@pytest.mark.parametrize("rows", [1, 6_000])
async def test_a_killed_import_is_continued_by_the_same_command(
    tmp_path: Path, bundle: Path, undisturbed: list[tuple[object, ...]], rows: int
) -> None:
    """In the end everything is there as if nothing had happened, and in the same order."""
    deployment = Deployment(tmp_path)
    load = Load(random.Random(1))
    async with deployment.serve() as serving:
        await load.send(serving.port, 5)
        async with deployment.start("events", "import", str(bundle), "--yes") as importing:
            await until(lambda: count(deployment) > rows, f"{rows} deliveries to be imported")
            importing.kill_all()
            await importing.gone()
        assert 0 < count(deployment) < DELIVERIES
        assert deployment.rows(CONTENT) == undisturbed[: count(deployment)]

        done = deployment.run("events", "import", str(bundle), "--yes")

        assert (done.code, done.stderr) == (0, "")
        await load.send(serving.port, 5)
        assert set(load.answers) == {200}
    assert deployment.rows(CONTENT) == undisturbed
    assert len(undisturbed) == DELIVERIES
    assert deployment.intact()


def count(deployment: Deployment) -> int:
    """Return how many deliveries were imported so far."""
    return int(deployment.rows("SELECT count(*) FROM deliveries WHERE origin = 'import'")[0][0])
