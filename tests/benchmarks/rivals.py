"""What we are compared with: `python -m tests.benchmarks.rivals NAME PORT` serves one, in the current folder.

`bare` only reads the body and answers: no endpoint on this server can be faster. `per-request` is the
straightforward durable endpoint: it checks the signature and commits each request through aiosqlite. `huey` is
what many would build: FastAPI with a Huey queue in SQLite. All run on the same uvicorn as ours, with the same
options; with the variable RIVAL_PROCESSES in so many processes that share one listening socket.
"""

import hashlib
import hmac
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiosqlite
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from receiver.runtime.processes import run
from tests.benchmarks.payloads import SECRET, SIGNATURE_HEADER
from tests.benchmarks.servers import RIVAL_STORE

_TABLE = """
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, type TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL
)
"""


def bare() -> ASGIApp:
    """Return an endpoint that keeps nothing."""

    async def take(request: Request) -> Response:
        await request.body()
        return JSONResponse({"status": "accepted"})

    return Starlette(routes=[Route("/webhooks", take, methods=["POST"])])


def per_request() -> ASGIApp:
    """Return an endpoint that commits and syncs each request before it answers."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # Without implicit transactions each INSERT is a commit of its own.
        async with aiosqlite.connect(RIVAL_STORE, isolation_level=None) as database:
            await database.execute("PRAGMA journal_mode = WAL")
            await database.execute("PRAGMA synchronous = FULL")
            await database.execute(_TABLE)
            app.state.database = database
            yield

    async def take(request: Request) -> Response:
        body = await request.body()
        if not _signed(request, body):
            return JSONResponse({"error": "unauthenticated"}, status_code=401)
        event = json.loads(body)
        values = (event["webhookId"], event["type"], json.dumps(dict(request.headers)), body)
        try:
            await request.app.state.database.execute(
                "INSERT INTO deliveries (key, type, headers, body) VALUES (?, ?, ?, ?)", values
            )
        except sqlite3.IntegrityError:
            return JSONResponse({"status": "duplicate"})
        return JSONResponse({"status": "accepted"})

    return Starlette(routes=[Route("/webhooks", take, methods=["POST"])], lifespan=lifespan)


def with_huey() -> ASGIApp:
    """Return a FastAPI endpoint that queues each event durably; no consumer takes them out."""
    from fastapi import FastAPI, HTTPException
    from huey import SqliteHuey

    queue = SqliteHuey("benchmark", filename=RIVAL_STORE, fsync=True, results=False)
    app = FastAPI()

    @queue.task()  # type: ignore[untyped-decorator]
    def handle(body: bytes) -> None:
        json.loads(body)

    @app.post("/webhooks")
    async def take(request: Request) -> dict[str, str]:
        body = await request.body()
        if not _signed(request, body):
            raise HTTPException(401)
        json.loads(body)
        handle(body)
        return {"status": "accepted"}

    return app


def _signed(request: Request, body: bytes) -> bool:
    wanted = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, request.headers.get(SIGNATURE_HEADER, ""))


RIVALS = {"bare": bare, "per-request": per_request, "huey": with_huey}


def main() -> None:
    """Serve one until stopped."""
    name, port = sys.argv[1:]
    rival, processes = RIVALS[name], int(os.environ.get("RIVAL_PROCESSES", "1"))
    config = uvicorn.Config(
        f"{__spec__.name}:{rival.__name__}",
        factory=True,
        workers=processes,
        port=int(port),
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    if processes > 1:
        Multiprocess(config, [config.bind_socket()]).run()
    else:
        run(server.serve())  # on the loop, and with the settings of the collector, that `serve` has


if __name__ == "__main__":
    main()
