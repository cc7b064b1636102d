"""Real processes for tests: commands in a folder of their own, deliveries to them, and what they leave behind."""

import asyncio
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from receiver.core.clock import SystemClock, to_micros
from receiver.stores.sql.columns_of_bodies import decoded
from receiver.stores.sqlite import bodies
from receiver.stores.sqlite.statements import BODY
from tests.process import warm
from tests.process.load import Load
from tests.process.programs import Program, Serving, Started, kill
from tests.process.waiting import PATIENCE_SECONDS, cancelled, meanwhile, until
from tests.process.warm import Finished
from tests.process.wire import SECRET, Answer, Connection, connection, get, post, raw_request, request
from tests.stores.outside import PostgresTables

__all__ = [
    "HANDLED",
    "HANDLERS",
    "PATIENCE_SECONDS",
    "POISON",
    "SECRET",
    "STEADY",
    "Answer",
    "Connection",
    "Deployment",
    "Finished",
    "Load",
    "Program",
    "Serving",
    "cancelled",
    "connection",
    "get",
    "kill",
    "meanwhile",
    "post",
    "raw_request",
    "request",
    "until",
]

STEADY = {"lease": "60"}
"""For tests that count runs: on a machine that stalls, a shorter lease may end, and its work runs again."""

POISON = "workers died while it ran"
"""Part of the error of a work item that is dead for that."""
_OPEN = "('waiting', 'queued', 'held', 'running')"

HANDLED = "handled"
"""File to which the usual handler appends the keys of what it has handled."""

HANDLERS = f"""
import os
from receiver import Context, Router
from receiver.events import Event

router = Router()
out = os.open({HANDLED!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

@router.on("*")
async def record(event: Event, ctx: Context) -> None:
    os.write(out, ctx.delivery.id.encode() + b"\\n")
"""


class Deployment:
    """A folder with handlers and settings, in which commands run and see no other setting than these.

    With the setting `STORE` its store is a PostgreSQL database, otherwise a file in the folder.
    """

    cold = False
    """Whether programs import all that they need, as outside of tests: for where the start itself is under test."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = {
            "SECRETS": SECRET,
            "PORT": "0",
            "LEASE": "1",
            "GRACE": "2",
            "LOG_LEVEL": "info",
        } | {name.upper(): value for name, value in settings.items()}
        self.database = folder / "receiver.db"
        self.write_handlers(HANDLERS)

    @property
    def on_postgres(self) -> bool:
        """Whether the store is a PostgreSQL database."""
        return self.settings.get("STORE", "").startswith("postgresql:")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command: what a program needs to run, and our settings."""
        passed = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "HOME", "TMPDIR", "LANG")
            if name in os.environ
        }
        return passed | {f"RECEIVER_{name}": value for name, value in self.settings.items() if value}

    def write_handlers(self, text: str) -> None:
        """Put a handlers module in place, at once as a deployment tool would."""
        new = self.folder / "handlers.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / "handlers.py")
        # A cached module is taken for current when its source has the same size and second of change.
        for cached in (self.folder / "__pycache__").glob("handlers.*"):
            cached.unlink()

    @asynccontextmanager
    async def start(self, *arguments: str, launcher: tuple[str, ...] = ()) -> AsyncIterator[Program]:
        """Start a `receiver` command, or another program with these arguments; its processes end with the block."""
        async with Program(self._starter(launcher, arguments)) as program:
            yield program

    @asynccontextmanager
    async def serve(
        self, *arguments: str, launcher: tuple[str, ...] = (), wait: bool = True
    ) -> AsyncIterator[Serving]:
        """Start `receiver serve`, by default until it is ready; its processes end with the block."""
        async with Serving(self._starter(launcher, ("serve", *arguments))) as serving:
            if wait:
                await serving.listening()
            yield serving

    @asynccontextmanager
    async def dev(self) -> AsyncIterator[Serving]:
        """Start `receiver dev` until it is ready; its processes end with the block."""
        async with Serving(self._starter((), ("dev",))) as serving:
            await serving.listening()
            yield serving

    def _starter(self, launcher: tuple[str, ...], arguments: tuple[str, ...]) -> Callable[[int], Started]:
        def warm_start(output: int) -> Started:
            return warm.start(arguments, self.folder, self.environment, stdout=output, stderr=output)

        def cold_start(output: int) -> Started:
            return subprocess.Popen(
                [sys.executable, *(launcher or ("-m", "receiver")), *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        return cold_start if launcher or self.cold else warm_start

    def run(
        self, *arguments: str, within: float = PATIENCE_SECONDS, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """Run a command to its end, with these variables beside the settings."""
        return warm.run(arguments, self.folder, self.environment | dict(environment or {}), within=within)

    # --- what is in the store

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Read the database as anybody can, beside the program, but for long bodies, which lie in files."""
        if self.on_postgres:
            with PostgresTables(self.settings["STORE"]).connect() as postgres:
                return postgres.execute(sql.replace("?", "%s").encode(), values).fetchall()
        with closing(self._open()) as connection:
            bodies.add_functions(connection, self.database)
            return connection.execute(sql, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=PATIENCE_SECONDS)

    def stored(self, keys: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return the digest of every stored body, or of these, by key; a key or body stored twice fails."""
        listed = "json_array_elements_text(?::json)" if self.on_postgres else "json_each(?)"
        wanted = "" if keys is None else f"WHERE key IN (SELECT value FROM {listed})"
        values = () if keys is None else (json.dumps(list(keys)),)
        body = "b.body" if self.on_postgres else BODY
        sql = f"SELECT d.key, {body}, b.coding FROM deliveries AS d JOIN bodies AS b USING (seq) {wanted}"
        rows = [
            (key, hashlib.sha256(decoded(body, coding, key=key)).digest())
            for key, body, coding in self.rows(sql, *values)
        ]
        stored = dict(rows)
        assert len(stored) == len(rows), "a key is stored twice"
        assert len(set(stored.values())) == len(rows), "a body is stored twice"
        return stored

    def unfinished(self) -> int:
        """Return how much is still to be done: deliveries nobody has looked at, and open work items."""
        [(new,)] = self.rows(
            "SELECT count(*) FROM deliveries WHERE seq > (SELECT value FROM marks WHERE name = 'routed')"
        )
        [(working,)] = self.rows(f"SELECT count(*) FROM work_items WHERE state IN {_OPEN}")
        return int(new) + int(working)

    def standing(self) -> str:
        """Say what is still to be done and in which state it is, for the message of a failure."""
        counts = self.rows(
            "SELECT handler, state, suspect, started, count(*), min(due_at), max(due_at) FROM work_items"
            f" WHERE state IN {_OPEN} GROUP BY 1, 2, 3, 4"
        )
        examples = self.rows(
            "SELECT id, delivery_seq, handler, state, attempts, uncounted, lost, deaths, suspect, started, due_at,"
            f" worker, lane, heads_lane, last_error FROM work_items WHERE state IN {_OPEN} ORDER BY due_at LIMIT 5"
        )
        marks = self.rows("SELECT value, (SELECT max(seq) FROM deliveries) FROM marks WHERE name = 'routed'")
        off = self.rows("SELECT name, switch FROM handlers WHERE switch <> 'on'")
        now = to_micros(SystemClock().now())
        return "\n".join(
            [
                f"{self.unfinished()} deliveries or work items are not finished at {now}; routed and last: {marks}",
                *(f"handler, state, suspect, started, how many, due from, to: {row}" for row in counts),
                *(f"for example: {row}" for row in examples),
                f"switched off: {off}",
            ]
        )

    def handled(self) -> Counter[str]:
        """Return how often the usual handler has seen each key."""
        path = self.folder / HANDLED
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def work(self) -> list[tuple[str, str, int]]:
        """Return handler, state and number of attempts of every work item."""
        return [tuple(row) for row in self.rows("SELECT handler, state, attempts FROM work_items ORDER BY id")]

    def intact(self) -> bool:
        """Tell whether SQLite finds no fault in the database."""
        return self.rows("PRAGMA integrity_check") == [("ok",)]

    async def all_ended(self) -> None:
        """Return when all work is done or dead; that may take long as long as what is left becomes less."""
        while left := self.unfinished():
            await self._fewer_unfinished(than=left)

    async def all_handled(self) -> None:
        """Return when every stored delivery is done."""
        await self.all_ended()
        dead = self.rows("SELECT handler, attempts, last_error FROM work_items WHERE state = 'dead'")
        assert not dead, f"{len(dead)} work items are dead instead of done: {dead[:3]}"

    async def all_handled_in_the_end(self) -> int:
        """Return when every stored delivery is done, retrying what was set aside as poison; return how many were.

        A test that kills workers kills them under innocent work too, and two deaths are what tells poison.
        """
        retried = 0
        while (left := self.unfinished()) or self.poisonous():
            if poisonous := self.poisonous():
                await self.retry(poisonous)
                retried += len(poisonous)
            else:
                await self._fewer_unfinished(than=left, or_poisonous=True)
        await self.all_handled()
        return retried

    def poisonous(self) -> list[int]:
        """Return the ids of the work items that are dead because workers died while they ran."""
        dead = self.rows("SELECT id FROM work_items WHERE state = 'dead' AND last_error LIKE ?", f"%{POISON}%")
        return [work_id for (work_id,) in dead]

    async def retry(self, work_ids: Sequence[int]) -> None:
        """Have work items run again, as an operator does."""
        done = await asyncio.to_thread(self.run, "work-items", "retry", *map(str, work_ids), "--yes")
        assert done.code == 0, done.text

    async def _fewer_unfinished(self, *, than: int, or_poisonous: bool = False) -> None:
        def fewer() -> bool:
            return self.unfinished() < than or (or_poisonous and bool(self.poisonous()))

        def what() -> str:
            return f"less than {than} deliveries to be unfinished\n{self.standing()}"

        await until(fewer, what)
