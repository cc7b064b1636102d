"""Ids: new ones at every start, and the same ones in every run with the same seed."""

import uuid
from pathlib import Path

from receiver.core.clock import VirtualClock
from receiver.emulator.ids import open_ids
from receiver.emulator.state.database import StateDatabase


async def ids_of_a_start(state: Path | None, seed: int | None) -> list[str]:
    async with StateDatabase(state, ()) as database:
        ids = await open_ids(database, VirtualClock(), seed)
        return [ids.new(), ids.new(), ids.new_delivery(), ids.new_delivery()]


async def test_a_seed_makes_ids_reproducible_over_starts(tmp_path: Path) -> None:
    """A second start with the same state makes other ids; a second run of both makes the same."""
    runs = [[await ids_of_a_start(tmp_path / f"{run}.db", 7) for _ in range(3)] for run in range(2)]

    assert runs[0] == runs[1]
    assert len({one for start in runs[0] for one in start}) == 12
    assert await ids_of_a_start(None, 7) == runs[0][0]
    assert await ids_of_a_start(None, 8) != runs[0][0]


async def test_ids_have_the_versions_of_the_service() -> None:
    """Without a seed they never come again."""
    one, other = await ids_of_a_start(None, None), await ids_of_a_start(None, None)

    assert [uuid.UUID(text).version for text in one] == [7, 7, 4, 4]
    assert not set(one) & set(other)
