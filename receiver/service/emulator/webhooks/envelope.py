"""What a webhook delivery holds, and whether a filter lets it pass."""

from collections.abc import Mapping, Sequence
from typing import Any

from receiver.service.emulator.json_text import to_json

Json = dict[str, Any]


def wants(events: Sequence[str], event_type: str) -> bool:
    """Tell whether the filter of a webhook lets an event pass; an empty one lets all pass.

    It may name the full type, its second part, or everything after its first part.
    """
    if not events:
        return True
    _, *parts = event_type.split(".")
    return not {event_type, ".".join(parts), *parts[:1]}.isdisjoint(events)


def build_body(
    event_type: str,
    job_id: str,
    delivery_id: str,
    *,
    success: bool,
    data: list[Any],
    error: str | None,
    metadata: Mapping[str, Any],
) -> bytes:
    """Return the bytes that are signed and sent, keys in the service's order. `data` may be JSON already."""
    envelope: Json = {
        "success": success,
        "type": event_type,
        "id": job_id,
        "webhookId": delivery_id,
        "data": data,
    }
    if error is not None:
        envelope["error"] = error
    envelope["metadata"] = dict(metadata)
    return to_json(envelope)
