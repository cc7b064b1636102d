"""Answers as responses: JSON in every case, with the headers that the service sends."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from receiver.service.emulator.failures import CallRefused, ScrapeFailed
from receiver.service.emulator.json_text import to_json_beside

Json = dict[str, Any]

OPEN_TO_BROWSERS = {"Access-Control-Allow-Origin": "*", "Vary": "Origin"}
"""Every page may read the answers: where any key passes, pages of other hosts are refused before."""
PREFLIGHT = {
    **OPEN_TO_BROWSERS,
    "Access-Control-Allow-Methods": "GET,HEAD,PUT,PATCH,POST,DELETE",
    "Access-Control-Max-Age": "600",
}


async def reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON object."""
    return Response(await to_json_beside(body), status, headers, media_type="application/json")


def refusal_body(refused: CallRefused) -> Json:
    """Return the service's error body: `{success: false, code?, error, details?, agent_hints?}`."""
    body: Json = {"success": False}
    if refused.code is not None:
        body["code"] = refused.code
    body["error"] = refused.error
    if refused.details is not None:
        body["details"] = refused.details
    if refused.hints:
        body["agent_hints"] = list(refused.hints)
    return body


def failure_body(failed: ScrapeFailed) -> Json:
    """Return the body for a page that could not be scraped."""
    return {"success": False, "code": failed.code, "error": str(failed)}


def unknown_error_body(identity: str) -> Json:
    """Return the body for a fault of ours. It says nothing but an id, which the log has too."""
    return {
        "success": False,
        "code": "UNKNOWN_ERROR",
        "error": f"An unexpected error occurred. The emulator's log has it under the id {identity}",
    }
