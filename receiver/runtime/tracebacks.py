"""Tracebacks for the author of a handler: the frames of that code, without ours and those of libraries."""

import linecache
import os
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TypeGuard

from receiver.core.text import shortened

MAX_ERROR_LENGTH = 500
MAX_FRAMES = 8
"""Frames shown of one exception: the first and the last ones."""
MAX_LINES = 40
_MAX_LINE_LENGTH = 200
_MAX_CHAIN = 5
_MAX_MEMBERS = 3
"""Members shown of an exception group."""
_MAX_DEPTH = 3
"""How deep groups in groups are shown."""

_OURS = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def error_line(error: BaseException) -> str:
    """Return class and message of an error in one line. This works even if its own `__str__` raises."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = "<exception str() failed>"
    shown = " ".join(f"{type(error).__qualname__}: {text}".split())
    return shown.removesuffix(":")[:MAX_ERROR_LENGTH]


def user_frames(error: BaseException) -> Sequence[str]:
    """Return the frames of the user's code as lines, outermost first: `handlers.py:14 in index: shorten(page)`.

    The user's code is all code outside of this package, Python's library and installed packages. For a SyntaxError
    the last line is the place of the mistake. An error comes after the one that caused it, or during whose handling
    it was raised, with that one's text; the members of a group come after it. There are at most 40 lines, and none
    without a frame of the user's code.
    """
    return _bounded(_lines_of_chain(error, depth=0))


def frames(error: BaseException) -> Sequence[str]:
    """Return the frames of the user's code, or the innermost frame if there are none."""
    found = user_frames(error)
    if found or error.__traceback__ is None:
        return found
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return [_frame_line(frame.f_code, line)]


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error from the first frame outside of this package, or all of it without one.

    The same goes for the errors that caused it.
    """
    described = traceback.TracebackException.from_exception(error)
    _cut_beginning(described, depth=0)
    return "".join(described.format())


def _cut_beginning(described: traceback.TracebackException, *, depth: int) -> None:
    stack = described.stack
    ours = next((at for at, frame in enumerate(stack) if not frame.filename.startswith(_OURS)), 0)
    del stack[:ours]
    linked = [described.__cause__, described.__context__, *(described.exceptions or ())]
    for one in linked if depth < _MAX_CHAIN else ():
        if one is not None:
            _cut_beginning(one, depth=depth + 1)


def place(error: BaseException) -> str:
    """Return file and line where the user's code raised an error, as in `handlers.py:14`; empty if unknown."""
    if _is_in_file(error):
        return f"{short_path(str(error.filename))}:{error.lineno}"
    own = _own_frames(error.__traceback__)
    return f"{short_path(own[-1][0].co_filename)}:{own[-1][1]}" if own else ""


def place_in(frame: FrameType | None) -> str:
    """Return the file and line that the user's code has reached in a running thread; empty outside of it."""
    while frame is not None:
        if is_users_code(frame.f_code.co_filename):
            return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def with_place(text: str, error: BaseException) -> str:
    """Return a text about an error, with the place of the error added unless it is unknown or in the text."""
    where = place(error)
    return text if where in text else f"{text} ({where})"


def _chain(error: BaseException) -> Sequence[BaseException]:
    """Return an error after its causes, in the order of a traceback."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and len(found) < _MAX_CHAIN and all(one is not other for other in found):
        found.append(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return found[::-1]


def _lines_of_chain(error: BaseException, *, depth: int) -> list[str]:
    lines: list[str] = []
    for one in _chain(error):
        own = _lines_of(one, depth=depth)
        lines += own if one is error or not own else [*own, shortened(error_line(one), _MAX_LINE_LENGTH)]
    return lines


def _lines_of(error: BaseException, *, depth: int) -> list[str]:
    lines = [_frame_line(code, line) for code, line in _own_frames(error.__traceback__)]
    if len(lines) > MAX_FRAMES:
        half = MAX_FRAMES // 2
        lines[half:-half] = [f"… {len(lines) - MAX_FRAMES} more frames …"]
    if _is_in_file(error):
        lines.append(_line(place(error), "", error.text or ""))
    if isinstance(error, BaseExceptionGroup) and depth < _MAX_DEPTH:
        lines += _members(error, depth=depth + 1)
    return lines


def _members(group: "BaseExceptionGroup[BaseException]", *, depth: int) -> Iterator[str]:
    for member in group.exceptions[:_MAX_MEMBERS]:
        yield f"- {shortened(error_line(member), _MAX_LINE_LENGTH)}"
        for line in _lines_of_chain(member, depth=depth):
            yield f"  {line}"
    if len(group.exceptions) > _MAX_MEMBERS:
        yield f"… {len(group.exceptions) - _MAX_MEMBERS} more exceptions …"


def _is_in_file(error: BaseException) -> TypeGuard[SyntaxError]:
    """Return whether an error is a mistake in a file, and not in a text such as `<string>`."""
    return isinstance(error, SyntaxError) and not (error.filename or "<").startswith("<")


def _own_frames(trace: TracebackType | None) -> Sequence[tuple[CodeType, int]]:
    if trace is None:
        return ()
    return [
        (frame.f_code, line) for frame, line in traceback.walk_tb(trace) if is_users_code(frame.f_code.co_filename)
    ]


def is_users_code(file: str) -> bool:
    """Return whether a file is outside of this package, Python's library and installed packages."""
    if any(part in file for part in _INSTALLED) or file.startswith("<frozen "):
        return False
    return not file.startswith((_OURS, *_LIBRARIES))


def _frame_line(code: CodeType, line: int) -> str:
    linecache.checkcache(code.co_filename)  # as a traceback does: the file may have changed
    return _line(
        f"{short_path(code.co_filename)}:{line}", code.co_qualname, linecache.getline(code.co_filename, line)
    )


def _line(where: str, function: str, source: str) -> str:
    within = f" in {function}" if function else ""
    code = f": {source.strip()}" if source.strip() else ""
    return shortened(f"{where}{within}{code}", _MAX_LINE_LENGTH)


def short_path(file: str) -> str:
    """Return a path relative to the current folder, if the file is in it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (OSError, ValueError):  # the folder is gone, or the file is elsewhere
        return file


def _bounded(lines: list[str]) -> Sequence[str]:
    if len(lines) > MAX_LINES:
        half = MAX_LINES // 2
        lines[half : 1 - half] = [f"… {len(lines) - MAX_LINES + 1} more lines …"]
    return lines
