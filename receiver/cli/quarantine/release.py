"""`receiver quarantine release`: read refused requests again."""

from collections.abc import Sequence

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import store_option
from receiver.cli.common.recording import recording
from receiver.cli.common.row_ids import REQUEST_ID
from receiver.cli.common.store import configured_store, decide, read
from receiver.core.envelope import read_envelope
from receiver.core.ports.controls import Controls
from receiver.core.text import escape_controls
from receiver.core.types import AppendOutcome
from receiver.errors import Malformed, UnknownRequest
from receiver.settings import Settings, load_settings


@click.command()
@click.argument("request_ids", metavar="ID...", nargs=-1, required=True, type=REQUEST_ID)
@store_option
def release(request_ids: Sequence[int], store: str | None) -> int:
    """Read requests again, and store those that this version accepts.

    Their handlers then run. Other requests stay in quarantine, and the exit code is 1.
    """
    settings = load_settings(store=store)
    stayed = [one for one in dict.fromkeys(request_ids) if not _release(settings, one)]
    return FAILED if stayed else OK


def _release(settings: Settings, request_id: int) -> bool:
    """Release one request and say the result; return whether it left quarantine."""
    try:
        request = read(settings, lambda reports: reports.quarantined_request(request_id))
        delivery = read_envelope(request.headers, request.body, received_at=request.received_at)

        async def decision(controls: Controls) -> AppendOutcome:
            about, store = f"request {request_id} as delivery {delivery.key}", configured_store(settings)
            async with recording(controls, store, "release", about, planned=1) as recorded:
                outcome = (await controls.release_request(request_id, delivery)).outcome
                await recorded.add(seen=1, changed=int(outcome is not AppendOutcome.CONFLICT))
            return outcome

        outcome = decide(settings, decision)
    except (Malformed, UnknownRequest) as exc:
        say(f"{request_id}  stays: {escape_controls(str(exc))}")
        return False
    if outcome is AppendOutcome.CONFLICT:
        say(f"{request_id}  stays: delivery {escape_controls(delivery.key)} is stored with another body")
        return False
    say(f"{request_id}  {outcome.value} as delivery {escape_controls(delivery.key)}")
    return True
