"""Tests that `datetime` and `time` show a fixed moment in modules of a folder."""

import copy
import importlib
import pickle
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from receiver.replay.frozen_time import FrozenTime

MOMENT = datetime(2026, 8, 4, 23, 30, 15, 123_457, tzinfo=UTC)
CODE = """
import datetime, time
import time as clock
from dataclasses import dataclass, field
from datetime import date, datetime as moment, timedelta, UTC
from time import ctime, gmtime, localtime, strftime, time as seconds, time_ns

class Own(moment): ...

@dataclass
class Note:
    at: moment | None = None
    on: date = field(default_factory=lambda: date.today())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a package of modules that read the time."""
    package = tmp_path / "frozen_package"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__", "inner/__init__", "inner/clocks"):
        (package / f"{name}.py").write_text(CODE)
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "frozen_installed.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(installed)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("frozen_")]:
        del sys.modules[name]


@pytest.fixture
def frozen() -> FrozenTime:
    """A frozen time that shows the moment."""
    time = FrozenTime()
    time.move_to(MOMENT)
    return time


@pytest.fixture
def clocks(folder: Path) -> ModuleType:
    """A module deep in the folder."""
    return importlib.import_module("frozen_package.inner.clocks")


def test_every_function_shows_the_moment(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """It is exact to the microsecond in UTC, in local time and in another zone."""
    local = MOMENT.astimezone().replace(tzinfo=None)
    with frozen.shown_to(folder):
        assert clocks.moment.now(UTC) == clocks.datetime.datetime.now(UTC) == frozen.now() == MOMENT
        assert clocks.moment.now() == clocks.moment.today() == local
        assert clocks.moment.now(tz=UTC).tzinfo is UTC
        assert clocks.moment.utcnow() == MOMENT.replace(tzinfo=None)
        assert clocks.date.today() == clocks.datetime.date.today() == local.date()
        assert clocks.seconds() == clocks.time.time() == clocks.clock.time() == MOMENT.timestamp()
        assert clocks.time_ns() == 1_785_886_215_123_457_000
        assert clocks.gmtime()[:6] == (2026, 8, 4, 23, 30, 15)
        assert clocks.localtime()[:6] == local.timetuple()[:6]
        assert clocks.strftime("%H:%M:%S") == f"{local:%H:%M:%S}"
        assert clocks.ctime() == clocks.time.asctime() == local.ctime()
        assert clocks.Note().on == local.date()


def test_the_moment_can_be_moved(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """This happens within the block."""
    with frozen.shown_to(folder):
        frozen.move_to(MOMENT + timedelta(days=1))

        assert clocks.moment.now(UTC) == MOMENT + timedelta(days=1)


def test_functions_with_a_given_time_are_not_changed(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """Only functions that read the clock are changed."""
    with frozen.shown_to(folder):
        assert clocks.gmtime(0)[:3] == (1970, 1, 1)
        assert clocks.strftime("%Y", clocks.gmtime(0)) == "1970"
        assert clocks.ctime(0) == time.ctime(0)
        assert clocks.moment.fromtimestamp(0, UTC) == datetime(1970, 1, 1, tzinfo=UTC)
        assert clocks.moment.strptime("2026", "%Y") == clocks.moment(2026, 1, 1) == datetime(2026, 1, 1)


def test_values_are_instances_of_the_real_classes(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """They can be pickled, copied, calculated and compared, and pass isinstance checks."""
    with frozen.shown_to(folder):
        now, today = clocks.moment.now(UTC), clocks.date.today()
        made = [now, today, clocks.moment(2026, 1, 1), clocks.moment.fromisoformat("2026-01-01"), clocks.moment.max]

        assert [type(one) for one in made] == [datetime, date, datetime, datetime, datetime]
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
        assert type(now - timedelta(hours=1)) is datetime
        assert now < datetime.max.replace(tzinfo=UTC)
        for value in (datetime(2026, 1, 1), clocks.Own(2026, 1, 1), now):
            assert isinstance(value, clocks.moment)
            assert isinstance(value, clocks.date)
        assert not isinstance(today, clocks.moment)
        assert issubclass(clocks.Own, clocks.moment)
        assert not issubclass(int, clocks.moment)


def test_a_class_derived_in_the_block_makes_its_own_values(
    folder: Path, clocks: ModuleType, frozen: FrozenTime
) -> None:
    """Its values show the moment, and other values are not instances of it."""
    with frozen.shown_to(folder):

        class Derived(clocks.moment):  # type: ignore[misc,name-defined]
            pass

        now = Derived.now(UTC)
        assert type(now) is Derived
        assert now == MOMENT
        assert isinstance(now, clocks.moment)
        assert not isinstance(clocks.moment.now(), Derived)
        assert not issubclass(datetime, Derived)


def test_clocks_for_durations_still_run(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """Time-outs and measurements use real time."""
    with frozen.shown_to(folder):
        assert clocks.time.monotonic is time.monotonic
        assert clocks.time.perf_counter is time.perf_counter
        assert clocks.time.sleep is time.sleep


def test_modules_outside_the_folder_see_real_time(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """These are installed packages in the folder, modules beside it, Python itself and this program."""
    program, python = importlib.import_module("receiver.core.clock"), importlib.import_module("logging")
    installed = importlib.import_module("frozen_installed")
    before = [dict(vars(module)) for module in (program, python, installed)]
    with frozen.shown_to(folder):
        assert sys.modules[__name__].__dict__["datetime"] is clocks.Own.__base__ is datetime
        assert installed.seconds() != MOMENT.timestamp()
    with frozen.shown_to(Path("/")):
        assert [dict(vars(module)) for module in (program, python, installed)] == before


def test_real_time_is_back_after_the_block(folder: Path, clocks: ModuleType, frozen: FrozenTime) -> None:
    """This holds after an error too."""
    before = dict(vars(clocks))

    def fail() -> None:
        with frozen.shown_to(folder):
            assert vars(clocks) != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert vars(clocks) == before
