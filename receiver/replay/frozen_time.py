"""Shows the arrival of a delivery as the current time to handlers that ask `datetime` or `time`."""

import datetime as real_datetime
import sys
import time as real_time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

from receiver.core.clock import to_micros

_NOT_OURS = sys.stdlib_module_names | {__name__.partition(".")[0]}


class FrozenTime:
    """Shows handlers one moment, until `move_to` shows another."""

    def __init__(self) -> None:
        self._moment = datetime.fromtimestamp(0, UTC)

    def now(self) -> datetime:
        """Return the moment that is shown."""
        return self._moment

    def move_to(self, moment: datetime) -> None:
        """Show this moment from now on."""
        self._moment = moment

    @contextmanager
    def shown_to(self, folder: Path) -> Iterator[None]:
        """Patch the names that modules below a folder have imported from `datetime` and `time`, for the block.

        Patched are the classes `datetime` and `date` with `now`, `utcnow` and `today`, and `time.time`, `time_ns`,
        `gmtime`, `localtime`, `asctime`, `ctime` and `strftime`, if they read the clock. `monotonic`,
        `perf_counter` and `sleep` use real time, and so does everything outside the folder: libraries, and this
        program.

        Only names in modules that are imported already are patched. These still use real time:
        `field(default_factory=datetime.now)`, a class derived from `datetime`, an import in a function.
        """
        instead = self._replacements()
        patched = [
            (module, name, value)
            for module in _modules_below(folder)
            for name, value in vars(module).items()
            if id(value) in instead
        ]
        for module, name, value in patched:
            setattr(module, name, instead[id(value)])
        try:
            yield
        finally:
            for module, name, value in patched:
                setattr(module, name, value)

    def _replacements(self) -> dict[int, Any]:
        frozen_datetime, frozen_date = self._classes()
        functions = self._functions()
        datetime_module = SimpleNamespace(
            **{**vars(real_datetime), "datetime": frozen_datetime, "date": frozen_date}
        )
        time_module = SimpleNamespace(**{**vars(real_time), **functions})
        return {
            id(real_datetime): datetime_module,
            id(real_time): time_module,
            id(datetime): frozen_datetime,
            id(date): frozen_date,
            **{id(getattr(real_time, name)): function for name, function in functions.items()},
        }

    def _classes(self) -> tuple[type[datetime], type[date]]:
        frozen = self

        class FrozenDatetime(datetime, metaclass=_Stand):
            _real = datetime

            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls.fromtimestamp(frozen._moment.timestamp(), tz)

            @classmethod
            def utcnow(cls) -> Self:
                return cls.now(UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Self:
                return cls.now()

        class FrozenDate(date, metaclass=_Stand):
            _real = date

            @classmethod
            def today(cls) -> Self:
                return cls.fromtimestamp(frozen._moment.timestamp())

        for stand, real in ((FrozenDatetime, datetime), (FrozenDate, date)):
            stand.__name__, stand.__qualname__, stand.__module__ = real.__name__, real.__name__, real.__module__
        return FrozenDatetime, FrozenDate

    def _functions(self) -> dict[str, Any]:
        def seconds(given: float | None = None) -> float:
            return self._moment.timestamp() if given is None else given

        def parts(given: Any = None) -> Any:
            return real_time.localtime(seconds()) if given is None else given

        return {
            "time": seconds,
            "time_ns": lambda: to_micros(self._moment) * 1_000,
            "gmtime": lambda secs=None: real_time.gmtime(seconds(secs)),
            "localtime": lambda secs=None: real_time.localtime(seconds(secs)),
            "asctime": lambda t=None: real_time.asctime(parts(t)),
            "ctime": lambda secs=None: real_time.ctime(seconds(secs)),
            "strftime": lambda form, t=None: real_time.strftime(form, parts(t)),
        }


class _Stand(type):
    """Makes a class stand for the class in its `_real`: it makes values of that class, and counts them as its own.

    Values of our own class could not be pickled, and libraries that look up values by their type would not find
    them. A class derived from it is an ordinary class.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        make = vars(cls).get("_real") or super().__call__
        return make(*args, **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, vars(cls).get("_real", ())) or super().__instancecheck__(value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, vars(cls).get("_real", ())) or super().__subclasscheck__(other)


def _modules_below(folder: Path) -> list[ModuleType]:
    """Return the modules below a folder, without installed packages, Python itself, and this program."""
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and (path := Path(file)).is_relative_to(folder)
        and "site-packages" not in path.parts
        and name.partition(".")[0] not in _NOT_OURS
    ]
