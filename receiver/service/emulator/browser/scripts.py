"""Scripts of a caller, run in the page."""

import json
from typing import Any

from playwright.async_api import CDPSession

from receiver.service.emulator.scrapes import Json

MAX_RESULT = 5 * 1024 * 1024
"""Characters of a result, as JSON."""


class ScriptFailed(Exception):
    """The script raised, or its result cannot be taken out of the page."""


async def run_script(session: CDPSession, script: str) -> Json:
    """Return `type` and `value` of what a script returns: its last expression, or what it says with `return`."""
    result = await _evaluate(session, script)
    value = result.get("value")
    if value is not None and len(json.dumps(value)) > MAX_RESULT:
        raise ScriptFailed(f"its result has more than {MAX_RESULT:,} characters")
    if "unserializableValue" in result:
        value = str(result["unserializableValue"])
    return {"type": str(result.get("type", "undefined")), "value": value}


async def _evaluate(session: CDPSession, script: str) -> Json:
    await session.send("Runtime.enable")
    compiled = await session.send(
        "Runtime.compileScript", {"expression": script, "sourceURL": "", "persistScript": False}
    )
    # A script with `return` or `await` is the body of a function.
    whole = "exceptionDetails" not in compiled
    answer: dict[str, Any] = await session.send(
        "Runtime.evaluate",
        {
            "expression": script if whole else f"(async () => {{\n{script}\n}})()",
            "awaitPromise": True,
            "returnByValue": True,
            "userGesture": True,
        },
    )
    details = answer.get("exceptionDetails")
    if details is not None:
        raised = details.get("exception", {})
        text = str(raised.get("description") or raised.get("value") or details.get("text", "an exception"))
        raise ScriptFailed(text.partition("\n")[0][:500])
    result: Json = answer["result"]
    return result
