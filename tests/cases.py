"""Many cheap cases in one test: `pytest.mark.parametrize` without the cost of a test per case."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Run = TypeVar("Run", bound=Callable[..., Any])


@contextmanager
def named(case: object) -> Iterator[None]:
    """Name the case in the report of whatever fails inside the block."""
    try:
        yield
    except BaseException as exc:
        exc.add_note(f"in the case {case!r:.500}")
        raise


def for_each(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test for one case after the other; the report names the one that fails.

    `names` are the arguments that a case gives, as for `parametrize`. Fixtures are made once for all cases, so
    their state passes from one case to the next.
    """
    listed = arguments_of(names, cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for case in listed:
                with named(case):
                    test(**fixtures, **case)

        return without_arguments(run, test, listed[0])

    return decorate


def arguments_of(names: str | tuple[str, ...], cases: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the arguments of each case by their names. Without any case nothing would be tested."""
    listed = [{names: case} if isinstance(names, str) else dict(zip(names, case, strict=True)) for case in cases]
    assert listed
    return listed


def without_arguments(run: Run, test: Callable[..., Any], given: Iterable[str]) -> Run:
    """Give `run` the signature of `test` without some arguments, which pytest would take for fixtures."""
    signature = inspect.signature(test)
    left = [one for name, one in signature.parameters.items() if name not in set(given)]
    vars(run)["__signature__"] = signature.replace(parameters=left)
    del vars(run)["__wrapped__"]
    return run
