import gc
import importlib
import logging
import os
import secrets
import shutil
import signal
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, count, groupby
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

from tests.stores.postgres.reused import ReusedSchemas
from tests.stores.postgres.shared import NoServer, drop_schema, shared_server

gc.disable()  # until the tests are collected: it took a third of that time, and they live until the end

pytest_plugins = ["receiver.testing"]

# How fast a machine is says nothing about the code, so no example has a deadline. Where CI is set, Hypothesis draws
# the same examples each time, so that a change is judged by itself; every other run looks for new ones. This is its
# "ci" profile: https://hypothesis.readthedocs.io/en/latest/reference/api.html#settings.
# `python -m tests.proofs properties` looks at many more examples.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "25")),
)
settings.load_profile("any machine")


# A shell that starts tests in the background lets them ignore Ctrl-C (POSIX, Shell Command Language, 2.11), and the
# programs that they start and interrupt would do the same.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Under nohup the same is true of the end of a terminal. These programs begin without this handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


# Tests make a thousand databases, whose commits wait for the disk. What they write goes to memory where Linux has
# room there: no test can tell whether a disk keeps what it was given. PYTEST_DEBUG_TEMPROOT names another folder.
_MEMORY, _ENOUGH = Path("/dev/shm"), 2**30
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# A worker that finds a niceness keeps it (`receiver.cli.main`). It would wait long if
# what other tests run came first.
if os.nice(0) == 0:
    os.nice(1)

# Each process of pytest-xdist and each program that a test starts would compile everything again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_xdist_auto_num_workers() -> int:
    """Run two tests per core: tests of programs wait for these most of the time."""
    return 2 * (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--every N`."""
    parser.addoption("--every", type=int, default=1, metavar="N", help="run each N-th case of each test")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each process of pytest-xdist begin with another test module: so they share the work of compiling them.

    What fails here is reported by the collection, which imports the module again.
    """
    root, xdist = Path(__file__).parent, getattr(session.config, "workerinput", None)
    if xdist is None or [Path(arg).resolve() for arg in session.config.args] != [root]:
        return
    paths = sorted(path.relative_to(root.parent) for path in root.rglob("test_*.py"))
    modules = [".".join(path.with_suffix("").parts) for path in paths]
    first = len(modules) * int(xdist["workerid"].removeprefix("gw")) // xdist["workercount"]
    for module in modules[first:] + modules[:first]:
        with warnings.catch_warnings(action="error"), suppress(Exception, pytest.skip.Exception):
            importlib.import_module(module)


def pytest_collection_finish() -> None:
    """Let the garbage collector begin, and pass over the tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--every` leaves out, and order the others."""
    _thin_out(config, items)
    _order(items)


def _thin_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep each N-th case of a test. The order is that of a shuffle, if there is one: each process has the same."""
    every, places = config.getoption("every"), defaultdict[str, Iterator[int]](count)
    kept: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        test, _, _ = item.nodeid.partition("[")
        kept[next(places[test]) % every == 0].append(item)
    if kept[False]:
        config.hook.pytest_deselected(items=kept[False])
        items[:] = kept[True]


def _order(items: list[pytest.Item]) -> None:
    """Start with the long ones, so that at the end no process waits for another.

    The modules with tests of programs, which wait, are spread among the others, which compute.
    """
    modules = [list(module) for _, module in groupby(items, key=lambda item: item.path)]
    programs = [module for module in modules if module[0].path.parent.name == "process"]
    others = [module for module in modules if module[0].path.parent.name != "process"]
    places = [(n / len(kind), module) for kind in (programs, others) for n, module in enumerate(kind)]
    items[:] = chain.from_iterable(module for _, module in sorted(places, key=lambda place: place[0]))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Give every logger the level back that it had before a test: `configure_logs` sets those of libraries."""
    before = {logger: logger.level for logger in _loggers()}
    yield
    for logger in _loggers():
        if logger.level != (level := before.get(logger, logging.NOTSET)):
            logger.setLevel(level)


def _loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


@pytest.fixture(autouse=True, scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let each HTTP client load the certificate of one authority. Tests call this machine only, by plain HTTP.

    To load all takes 25 ms of CPU time, and the tests make hundreds of clients.
    """
    certificates = Path(certifi.where()).read_text(encoding="ascii")
    first = tmp_path_factory.mktemp("certificates") / "first.pem"
    end = "-----END CERTIFICATE-----\n"
    first.write_text(certificates.partition(end)[0] + end, encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(first))
        yield


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server that all tests share. Without one, tests that need it are skipped."""
    base = tmp_path_factory.getbasetemp()
    with ExitStack() as stack:
        try:
            yield stack.enter_context(shared_server(base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base))
        except NoServer as exc:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(exc))


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of a PostgreSQL store that does not exist yet: a schema of its own for each test."""
    name = f"test_{secrets.token_hex(8)}"
    yield f"{postgres_server}?schema={name}"
    drop_schema(postgres_server, name)


@pytest.fixture(scope="session")
def reused_schemas(postgres_server: str) -> Iterator[ReusedSchemas]:
    """The schemas of the contract tests that this process runs."""
    schemas = ReusedSchemas(postgres_server)
    yield schemas
    schemas.close()


@pytest.fixture
def empty_postgres_url(reused_schemas: ReusedSchemas) -> Iterator[str]:
    """The address of a PostgreSQL store that is empty, and whose tables watch the moves of work items."""
    with reused_schemas.one() as url:
        yield url


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable that settings are read from."""
    for name in os.environ:
        if name.upper().startswith("RECEIVER_") or name in ("PORT", "DATABASE_URL"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
