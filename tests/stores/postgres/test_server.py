"""The servers of the tests themselves."""

from pathlib import Path

import pytest

from receiver.stores.postgres.store import PostgresStore
from tests.doubles import appended, delivery, soon
from tests.stores.postgres.programs import installed_programs
from tests.stores.postgres.server import running_server


async def test_programs_in_a_closed_folder_run_too(tmp_path: Path) -> None:
    """As root they run as another user, who cannot enter it: a virtual environment below /root, for example."""
    programs = next((one for one in installed_programs() if one.of_wheel), None)
    if programs is None:
        pytest.skip("the programs of Debian lie where everybody can reach them")
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    with running_server(programs.reachable_copy(closed)) as server:
        async with PostgresStore(server.url).log() as log:
            await soon(appended(log, delivery()))
