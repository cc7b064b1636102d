"""A handler that records what it does in lanes and asks for once, and the checks of its records."""

from collections import Counter

from tests.process.harness import HANDLED, Deployment

_BEGUN, _TOLD = "begun", "told"
RECORDING = f"""
import asyncio, os, zlib
from receiver import Context, Router
from receiver.events import Event

router = Router()
begun, told, handled = (
    os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("{_BEGUN}", "{_TOLD}", "{HANDLED}")
)

@router.on("*", lane=lambda event: event.webhook_id[0] if event.webhook_id else None)
async def record(event: Event, ctx: Context) -> None:
    line = ctx.delivery.id.encode() + b"\\n"
    os.write(begun, line)
    if await ctx.once("told"):
        os.write(told, line)
    await asyncio.sleep(zlib.crc32(line) % 10 / 400)
    os.write(handled, line)
"""
"""Lanes by the first digit of the id; each run takes some milliseconds."""


def check_lanes(deployment: Deployment) -> None:
    """Check the first run of each item: a crash of the server may forget its end, and it runs once more."""
    arrived = [key for (key,) in deployment.rows("SELECT key FROM deliveries ORDER BY seq")]
    stored = set(arrived)
    begun = [key for key in dict.fromkeys(_lines(deployment, _BEGUN)) if key in stored]
    for lane in "0123456789abcdef":
        of_lane = [key for key in arrived if key[0] == lane]
        assert [key for key in begun if key[0] == lane] == of_lane, f"lane {lane} has begun out of order"


def check_once(deployment: Deployment) -> None:
    """Check that nobody was told twice to be the first."""
    told = Counter(_lines(deployment, _TOLD))
    assert set(told.values()) <= {1}, "something that was asked for once was told twice"


def _lines(deployment: Deployment, name: str) -> list[str]:
    return (deployment.folder / name).read_text().split()
