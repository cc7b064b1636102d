"""Watchers of jobs over WebSocket: what is there, each document as it comes, and the end."""

import asyncio
import uuid
from contextlib import suppress

import msgspec
from starlette.routing import Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.api.calls import CallRefused, Json, is_foreign_page
from receiver.emulator.api.jobs import status_body
from receiver.emulator.clock import wire_time
from receiver.emulator.jobs.crawls import CrawlEngine
from receiver.emulator.jobs.engine import JobWatch
from receiver.emulator.jobs.records import EmulatedJobState, JobNotFound, JobOfOtherTeam, JobRecord
from receiver.emulator.json_text import to_json
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

PATHS = ("/v1/crawl/{id}", "/v1/batch/scrape/{id}", "/v2/crawl/{id}", "/v2/batch/scrape/{id}")
DONE, UNKNOWN_JOB, FAULT, NO_AUTH, OTHER_TEAM = 1000, 1008, 1011, 3000, 3003
"""Why a socket is closed: the service's codes."""
MAX_CATCHUP_BYTES = 256 * 1024
"""The documents that the first message has; the others follow one by one. Clients refuse messages over 1 MiB."""


class JobSockets:
    """Serves watchers of crawls and batch scrapes. A path finds a job by its id, whatever its kind."""

    def __init__(self, engine: CrawlEngine, keys: ApiKeys) -> None:
        self._engine = engine
        self._keys = keys

    def app(self) -> ASGIApp:
        """Return an ASGI app for the WebSockets of all jobs. It refuses other paths."""
        return Router([WebSocketRoute(path, self.serve) for path in PATHS], redirect_slashes=False)

    async def serve(self, socket: WebSocket) -> None:
        """Serve one watcher until the job has ended, or the watcher has gone."""
        if self._keys.anyone_passes and is_foreign_page(socket):
            # Browsers ask nobody before they open a WebSocket to another host, so it is refused as a request is.
            return await socket.close(UNKNOWN_JOB)
        await socket.accept()
        with suppress(WebSocketDisconnect):
            try:
                await self._watch(socket)
            except WebSocketDisconnect:
                raise
            except JobOfOtherTeam:
                await _refuse(socket, OTHER_TEAM, "Forbidden")
            except JobNotFound as exc:
                await _refuse(socket, UNKNOWN_JOB, str(exc))
            except Exception:
                log.exception("watcher_crashed", extra={"path": socket.url.path})
                await _close(socket, FAULT, "Unexpected error")

    async def _watch(self, socket: WebSocket) -> None:
        try:
            team = self._keys.team_of(socket.headers.get("authorization"))
        except CallRefused as exc:
            return await _refuse(socket, NO_AUTH, exc.error)
        job = await self._engine.get(_job_id(socket), team)
        with self._engine.watch(job.id) as watch:
            tell = asyncio.create_task(self._tell(socket, job.id, team, watch))
            leave = asyncio.create_task(_until_gone(socket))
            try:
                await asyncio.wait((tell, leave), return_when=asyncio.FIRST_COMPLETED)
                if tell.done():
                    tell.result()
            finally:
                for task in (tell, leave):
                    task.cancel()
                await asyncio.gather(tell, leave, return_exceptions=True)
        return None

    async def _tell(self, socket: WebSocket, job_id: str, team: str, watch: JobWatch) -> None:
        job = await self._engine.get(job_id, team)
        page = await self._engine.documents(job, max_bytes=MAX_CATCHUP_BYTES)
        version = 1 if socket.url.path.startswith("/v1/") else 2
        body = status_body(job, page, base_url=_base_url(socket), version=version)
        await _send(socket, {"type": "catchup", "data": body})
        position = page.last
        while True:
            position = await self._send_documents(socket, job, position)
            if job.ended_at is not None:
                break
            await watch.changed()
            job = await self._engine.get(job_id, team)
        if job.state is EmulatedJobState.FAILED:
            await _send(socket, {"type": "error", "error": job.error or "The job failed"})
        else:
            await _send(socket, {"type": "done", "data": _summary(job)})
        await _close(socket, DONE, "done")

    async def _send_documents(self, socket: WebSocket, job: JobRecord, position: int) -> int:
        """Send the documents after a position, and return the position of the last one."""
        while position < job.completed:
            page = await self._engine.documents(job, skip=position)
            if not page.texts:
                break
            for text in page.texts:
                await _send(socket, {"type": "document", "data": msgspec.Raw(text)})
            position = page.last
        return position


def _job_id(socket: WebSocket) -> str:
    try:
        return str(uuid.UUID(socket.path_params["id"]))
    except ValueError:
        raise JobNotFound("Job not found") from None


def _base_url(socket: WebSocket) -> str:
    scheme = {"ws": "http", "wss": "https"}.get(socket.url.scheme, socket.url.scheme)
    return f"{scheme}://{socket.url.netloc}"


def _summary(job: JobRecord) -> Json:
    return {
        "status": job.state,
        "completed": job.completed,
        "total": job.total,
        "creditsUsed": job.credits,
        "expiresAt": wire_time(job.expires_at),
    }


async def _until_gone(socket: WebSocket) -> None:
    """Return when the watcher has closed the socket. What it sends has no meaning."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue


async def _refuse(socket: WebSocket, code: int, reason: str) -> None:
    await _send(socket, {"type": "error", "error": reason})
    await _close(socket, code, reason)


async def _send(socket: WebSocket, message: Json) -> None:
    await socket.send_text(to_json(message).decode())


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        await socket.close(code, reason)
