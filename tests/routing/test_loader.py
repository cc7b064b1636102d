"""The import of the router that the settings name, and the message for each mistake."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from receiver.errors import HandlerError
from receiver.routing.loader import load_router


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for modules; what is imported from it is forgotten again."""
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


GOOD = "from receiver import Router\nrouter = Router()\n@router.on('*')\ndef tell(event): ...\n"


def refusal(name: str, folder: Path) -> HandlerError:
    with pytest.raises(HandlerError) as caught:
        load_router(name, folder=folder)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_router_is_found_in_a_module(folder: Path) -> None:
    """By its name."""
    (folder / "own_hooks.py").write_text(GOOD)

    assert [handler.name for handler in load_router("own_hooks:router", folder=folder)] == ["own_hooks.tell"]


def test_a_router_is_found_in_a_package(folder: Path) -> None:
    """Also in a module of a package."""
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").write_text("from own_package.deep import router as main\n")
    (folder / "own_package" / "deep.py").write_text(GOOD)

    assert len(load_router("own_package:main", folder=folder)) == 1
    assert len(load_router("own_package.deep:router", folder=folder)) == 1


def test_the_folder_comes_before_everything_else(folder: Path) -> None:
    """An installed package of the same name must not win, even if the folder is on the path already."""
    (folder / "first").mkdir()
    (folder / "second").mkdir()
    (folder / "first" / "own_twice.py").write_text("router = 1\n")
    (folder / "second" / "own_twice.py").write_text(GOOD)
    sys.path[:0] = [str(folder / "first"), str(folder / "second")]

    assert len(load_router("own_twice:router", folder=folder / "second")) == 1


@pytest.mark.parametrize("name", ["", "handlers", ":router", "handlers:", ":", "handlers.router"])
def test_a_name_without_both_halves_is_refused(folder: Path, name: str) -> None:
    """The error shows the right form."""
    assert f"RECEIVER_HANDLERS={name!r}: write module:router, as in handlers:router" in str(refusal(name, folder))


@pytest.mark.parametrize(
    "name",
    [
        "own_nothing:router",
        "own_nothing.at.all:router",
    ],
)
def test_a_missing_module_is_refused(folder: Path, name: str) -> None:
    """The error says where it was searched and which command creates it."""
    text = str(refusal(name, folder))

    assert f"there is no module {name.partition(':')[0]!r}" in text
    assert str(folder) in text
    assert "receiver new" in text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import own_missing_dependency", "does not import: No module named 'own_missing_dependency'"),
        ("1 / 0", "does not import: ZeroDivisionError: division by zero"),
        ("def broken(:", "does not import: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "does not import: SystemExit: 3"),
        ("raise ValueError('two\\nlines')", "does not import: ValueError: two"),
        ("class Own(BaseException): ...\nraise Own('x')", "does not import: Own: x"),
        ("from receiver import NoSuchName", "does not import: "),
    ],
)
def test_a_module_that_does_not_import_is_refused(folder: Path, code: str, words: str) -> None:
    """In one line with file and line, and with the module's own error behind it."""
    (folder / "own_broken.py").write_text(code)

    error = refusal("own_broken:router", folder)

    assert f"own_broken {words}" in str(error)
    assert str(error).endswith(f"own_broken.py:{len(code.splitlines())})")
    assert error.__cause__ is not None
    assert "own_broken" in "".join(traceback.format_exception(error.__cause__))


def test_the_place_is_that_of_the_mistake_and_not_of_its_import(folder: Path) -> None:
    """A module may import another one that is broken, or use it wrongly."""
    (folder / "own_top.py").write_text("import own_deep\n\nown_deep.use(None)\n")
    (folder / "own_deep.py").write_text("def use(x):\n    return x.title\n")

    assert str(refusal("own_top:router", folder)).endswith("own_deep.py:2)")


def test_ctrl_c_during_an_import_is_raised(folder: Path) -> None:
    """It is not an error of the module."""
    (folder / "own_interrupted.py").write_text("raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        load_router("own_interrupted:router", folder=folder)


def test_a_mistake_at_registration_keeps_its_message(folder: Path) -> None:
    """It names the handler, says how to fix it, and has the place."""
    (folder / "own_mistake.py").write_text(GOOD.replace("'*'", "'crawl.pages'"))

    text = str(refusal("own_mistake:router", folder))

    assert "own_mistake.tell: no event type matches 'crawl.pages'" in text
    assert text.count("own_mistake.py:3") == 1


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("routes", "own_other has nothing named 'routes'; a Router is expected there"),
        ("number", "own_other.number is of type int; a Router is expected there"),
        ("tell", "own_other.tell is of type function"),
        ("Router", "own_other.Router is of type type"),
        ("router.on", "own_other has nothing named 'router.on'"),
    ],
)
def test_another_object_than_a_router_is_refused(folder: Path, attribute: str, words: str) -> None:
    """The error names its type."""
    (folder / "own_other.py").write_text(GOOD + "number = 5\n")

    assert words in str(refusal(f"own_other:{attribute}", folder))


def test_a_router_that_does_not_work_as_a_whole_is_refused(folder: Path) -> None:
    """A missing resource shows only when everything is registered."""
    (folder / "own_hooks.py").write_text(
        "from receiver import Router\nrouter = Router()\nclass Pool: ...\n"
        "@router.on('*')\ndef tell(event, pool: Pool): ...\n"
    )

    assert "own_hooks.tell wants Pool as 'pool'" in str(refusal("own_hooks:router", folder))
