"""The frames of the user's code in a traceback."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from receiver.events import parse_event
from receiver.runtime.tracebacks import (
    MAX_LINES,
    error_line,
    frames,
    is_users_code,
    place,
    traceback_of,
    user_frames,
)


def raised(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Runs code as the file `handlers.py` of the current folder and returns its names."""
    monkeypatch.chdir(tmp_path)

    def run(code: str) -> dict[str, Any]:
        file = tmp_path / "handlers.py"
        file.write_text(code)
        names: dict[str, Any] = {}
        exec(compile(code, str(file), "exec"), names)
        return names

    return run


CATCHING = "def index(page):\n    try:\n        page['x']\n"
HELPER = "def shorten(page):\n    return page['title'][:9]\ndef index(page):\n    return shorten(page)\n"


def test_each_frame_has_file_line_function_and_source(module: Callable[[str], dict[str, Any]]) -> None:
    """The file is named as from the current folder."""
    index = module(HELPER)["index"]
    error = raised(lambda: index({}))

    assert user_frames(error)[-2:] == [
        "handlers.py:4 in index: return shorten(page)",
        "handlers.py:2 in shorten: return page['title'][:9]",
    ]
    assert place(error) == "handlers.py:2"


def test_a_traceback_has_causes_and_members_of_groups() -> None:
    """As Python writes them."""

    def index() -> None:
        try:
            raise KeyError("first")
        except KeyError as cause:
            raise ExceptionGroup("second", [ValueError("third")]) from cause

    text = traceback_of(raised(index))

    assert all(word in text for word in ("KeyError: 'first'", "direct cause", "second", "ValueError: third"))


def test_a_traceback_without_the_users_code_is_whole() -> None:
    """As an error of this package has it."""
    own = raised(lambda: parse_event(b"nothing"))
    assert own.__traceback__ is not None
    while is_users_code(own.__traceback__.tb_frame.f_code.co_filename):
        own.__traceback__ = own.__traceback__.tb_next
        assert own.__traceback__ is not None

    assert "in parse_event" in traceback_of(own)


def test_a_file_elsewhere_has_its_whole_path(
    module: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also after the current folder was removed."""
    index = module(HELPER)["index"]
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    error = raised(lambda: index({}))
    monkeypatch.chdir(tmp_path.parent)

    assert place(error) == f"{tmp_path.name}{os.sep}handlers.py:2"


def test_frames_of_libraries_and_of_this_package_are_dropped(module: Callable[[str], dict[str, Any]]) -> None:
    """Whether they are before, between or after those of the user."""
    code = (
        "import functools, json\ndef index(body):\n"
        "    return functools.reduce(lambda a, b: json.loads(b), [1, body])\n"
    )
    index = module(code)["index"]

    async def call() -> object:
        return index("{")

    shown = user_frames(raised(lambda: asyncio.run(call())))

    assert [line.split(":")[0] for line in shown[-2:]] == ["handlers.py", "handlers.py"]
    assert not [line for line in shown if "asyncio" in line.split(" in ")[0] or "json" in line.split(" in ")[0]]


def test_without_a_frame_of_the_user_the_innermost_is_kept() -> None:
    """It may be a library's or ours."""
    error = raised(lambda: parse_event(b"{"))
    error.__cause__ = error.__context__ = None
    while error.__traceback__ and error.__traceback__.tb_frame.f_code.co_filename == __file__:
        error.__traceback__ = error.__traceback__.tb_next

    assert user_frames(error) == []
    assert len(frames(error)) == 1
    assert "receiver" in frames(error)[0]
    assert frames(ValueError("never raised")) == []


def test_a_cause_comes_first_with_its_text(module: Callable[[str], dict[str, Any]]) -> None:
    """It is what went wrong at first."""
    code = CATCHING + "    except KeyError as error:\n        raise ValueError('no page') from error\n"
    shown = user_frames(raised(lambda: module(code)["index"]({})))
    own = [line for line in shown if not line.startswith(str(Path(__file__)))]

    assert own == [
        "handlers.py:3 in index: page['x']",
        "KeyError: 'x'",
        "handlers.py:5 in index: raise ValueError('no page') from error",
    ]


def test_a_suppressed_context_is_not_shown(module: Callable[[str], dict[str, Any]]) -> None:
    """`from None` says that it does not matter."""
    code = CATCHING + "    except KeyError:\n        raise ValueError('no page') from None\n"

    assert "KeyError: 'x'" not in user_frames(raised(lambda: module(code)["index"]({})))


def test_members_of_a_group_follow_it(module: Callable[[str], dict[str, Any]]) -> None:
    """Each with its own frames; the fourth and further ones are counted."""
    code = (
        "def fail(number):\n    raise ValueError(number)\n"
        "def collect(number):\n    try:\n        fail(number)\n"
        "    except ValueError as error:\n        return error\n"
        "def index():\n    raise ExceptionGroup('all failed', [collect(n) for n in range(5)])\n"
    )
    shown = user_frames(raised(module(code)["index"]))

    assert [line for line in shown if line.startswith("- ")] == [
        "- ValueError: 0",
        "- ValueError: 1",
        "- ValueError: 2",
    ]
    assert shown.count("  handlers.py:2 in fail: raise ValueError(number)") == 3
    assert shown[-1] == "… 2 more exceptions …"


def test_a_syntax_error_ends_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame is in the file, since it never ran."""
    monkeypatch.chdir(tmp_path)
    error = raised(lambda: compile("ok = 1\ndef broken(:\n", str(tmp_path / "handlers.py"), "exec"))

    assert place(error) == "handlers.py:2"
    assert user_frames(error)[-1].startswith("handlers.py:2")


def test_a_syntax_error_in_a_text_has_the_place_of_the_call() -> None:
    """The text has no file."""
    assert place(raised(lambda: eval("1 +"))).startswith(f"{Path(__file__).relative_to(Path.cwd())}:")


def nest(depth: int) -> Exception:
    """Return an exception in so many groups."""
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("group", [error, KeyError("beside")])
    return error


def ring() -> Exception:
    """Return an exception that is its own cause."""
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def recurse(depth: int) -> None:
    if depth:
        recurse(depth - 1)
    raise ValueError("x" * 10_000)


def chained(depth: int) -> Exception:
    error = ValueError("0")
    for number in range(depth):
        error.__traceback__ = raised(lambda: json.loads("{")).__traceback__
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


@pytest.mark.parametrize(
    "error",
    [nest(500), ring(), raised(lambda: recurse(500)), chained(500), raised(lambda: recurse(1))],
    ids=["groups", "ring", "recursion", "chain", "long text"],
)
def test_the_lines_are_bounded(error: BaseException) -> None:
    """Whatever is raised; what was cut is counted."""
    shown = frames(error)

    assert len(shown) <= MAX_LINES
    assert all(len(line) <= 220 and "\n" not in line for line in shown)


class Unprintable(Exception):
    """An exception whose text cannot be had, and which is equal to nothing."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]


def test_an_exception_that_raises_itself_is_described() -> None:
    """The description is for the log, which must not fail."""
    error = Unprintable()
    error.__cause__ = Unprintable()

    assert error_line(error).startswith("Unprintable")
    assert frames(error) == []
