"""The operations of monitors: create, list, read, change, delete, run, and their checks."""

from urllib.parse import urlencode

from typing_extensions import override

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, OperationFamily
from receiver.emulator.failures import CallRefused
from receiver.emulator.monitors.service import MonitorBusy, Monitors
from receiver.emulator.monitors.table import CHECK_STATUSES, PAGE_STATUSES
from receiver.emulator.scrapes import Json

_LIMIT, _MOST = 25, 100
_MOST_TO_SKIP = 2**53


class MonitorOperations(OperationFamily):
    """Creates, shows, changes, deletes and runs monitors, and shows their checks."""

    def __init__(self, monitors: Monitors) -> None:
        self._monitors = monitors

    @override
    def operations(self) -> list[ApiOperation]:
        one = "/v2/monitor/{id}"
        return [
            ApiOperation("POST", "/v2/monitor", self.create, "crawl"),
            ApiOperation("GET", "/v2/monitor", self.newest, "crawlStatus"),
            ApiOperation("GET", one, self.get, "crawlStatus"),
            ApiOperation("PATCH", one, self.change, "crawl"),
            ApiOperation("DELETE", one, self.delete, "crawlStatus"),
            ApiOperation("POST", f"{one}/run", self.run, "crawl"),
            ApiOperation("GET", f"{one}/checks", self.checks, "crawlStatus"),
            ApiOperation("GET", f"{one}/checks/{{checkId}}", self.check, "crawlStatus"),
        ]

    async def create(self, call: ApiCall) -> Answer:
        """Make a monitor."""
        return Answer({"success": True, "data": await self._monitors.create(call.team, call.body)})

    async def newest(self, call: ApiCall) -> Answer:
        """List monitors, the newest first."""
        limit, offset = _number(call, "limit", _LIMIT, 1, _MOST), _number(call, "offset", 0, 0, _MOST_TO_SKIP)
        return Answer({"success": True, "data": await self._monitors.newest(call.team, limit, offset)})

    async def get(self, call: ApiCall) -> Answer:
        """Answer with a monitor."""
        return Answer({"success": True, "data": await self._monitors.get(call.team, _id(call))})

    async def change(self, call: ApiCall) -> Answer:
        """Change a monitor."""
        record = await self._monitors.change(call.team, _id(call), call.body, call.nulls)
        return Answer({"success": True, "data": record})

    async def delete(self, call: ApiCall) -> Answer:
        """Delete a monitor."""
        await self._monitors.delete(call.team, _id(call))
        return Answer({"success": True})

    async def run(self, call: ApiCall) -> Answer:
        """Start a check."""
        try:
            check = await self._monitors.run(call.team, _id(call))
        except MonitorBusy as exc:
            return Answer({"success": False, "error": "Monitor is already running", "checkId": exc.check_id}, 409)
        return Answer({"success": True, "id": check["id"], "data": check})

    async def checks(self, call: ApiCall) -> Answer:
        """List the checks of a monitor, the newest first."""
        limit, offset = _number(call, "limit", _LIMIT, 1, _MOST), _number(call, "offset", 0, 0, _MOST_TO_SKIP)
        checks = await self._monitors.checks(call.team, _id(call), limit, offset, _choice(call, CHECK_STATUSES))
        return Answer({"success": True, "data": checks})

    async def check(self, call: ApiCall) -> Answer:
        """Answer with a check and some of its pages. It has `next` if there are more."""
        limit, skip = _number(call, "limit", _LIMIT, 1, _MOST), _number(call, "skip", 0, 0, _MOST_TO_SKIP)
        status = _choice(call, PAGE_STATUSES)
        monitor_id, check_id = _id(call), _id(call, "checkId")
        check = await self._monitors.check(call.team, monitor_id, check_id)
        pages = await self._monitors.pages(check_id, limit + 1, skip, status)
        body: Json = {"success": True, "data": {**check, "pages": pages[:limit]}}
        if len(pages) > limit:
            query = {"limit": limit, "skip": skip + limit} | ({} if status is None else {"status": status})
            url = f"{call.base_url}/v2/monitor/{monitor_id}/checks/{check_id}?{urlencode(query)}"
            body["next"] = body["data"]["next"] = url
        return Answer(body)


def _id(call: ApiCall, name: str = "id") -> str:
    return call.uuid(name, _bad_request(name, "a UUID"))


def _number(call: ApiCall, name: str, default: int, lowest: int, highest: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and lowest <= int(text) <= highest):
        raise _bad_request(name, f"a whole number, {lowest} to {highest}")
    return int(text)


def _choice(call: ApiCall, allowed: tuple[str, ...]) -> str | None:
    text = call.query.get("status")
    if text is not None and text not in allowed:
        raise _bad_request("status", f"one of {', '.join(allowed)}")
    return text


def _bad_request(name: str, expected: str) -> CallRefused:
    message = f"{name}: it has to be {expected}"
    details = [{"code": "custom", "path": [name], "message": message}]
    return CallRefused(400, message, code="BAD_REQUEST", details=details)
