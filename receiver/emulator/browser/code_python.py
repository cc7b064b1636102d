"""Runs Python of a caller with `page`, `context` and `browser`: `python code_python.py CODE RESULT URL`.

The code may await. The value of its last expression goes into the file RESULT. This file runs by itself.
"""

import ast
import asyncio
import inspect
import json
import linecache
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

_RESULT = "__last_value__"
_FILE = "<code>"


def _with_result(source: str) -> ast.Module:
    """Return the code with a name for the value of its last expression."""
    tree = ast.parse(source, _FILE)
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        named = ast.Assign([ast.Name(_RESULT, ast.Store())], last.value)
        tree.body[-1] = ast.copy_location(named, last)
    return ast.fix_missing_locations(tree)


async def _run(source: str, result: Path, url: str) -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.connect_over_cdp(url)
        context = browser.contexts[0]
        page = context.pages[-1] if context.pages else await context.new_page()
        scope: dict[str, Any] = {"__name__": "__main__", "browser": browser, "context": context, "page": page}
        linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
        code = compile(_with_result(source), _FILE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, scope)  # noqa: S307 - its purpose, and it is confined
        if inspect.isawaitable(done):
            await done
        _keep(scope.get(_RESULT), result)


def _keep(value: object, result: Path) -> None:
    if value is not None:
        result.write_text(value if isinstance(value, str) else json.dumps(value, default=repr))


def _explained(error: BaseException) -> Iterator[str]:
    """Yield the lines of the traceback, with only the caller's own frames."""
    whole = traceback.TracebackException.from_exception(error)
    waiting = [whole]
    while waiting:
        one = waiting.pop()
        own = [frame for frame in one.stack if frame.filename == _FILE]
        if own or one.exc_type is SyntaxError:
            one.stack = traceback.StackSummary.from_list(own)
        waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
    yield from whole.format()


def main(arguments: list[str]) -> int:
    """Run the code; 1 if it raised."""
    code, result, url = arguments
    try:
        asyncio.run(_run(Path(code).read_text(), Path(result), url))
    except Exception as exc:
        sys.stderr.write("".join(_explained(exc)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
