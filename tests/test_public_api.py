"""The names that users rely on, and that each of them is explained."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import receiver
import receiver.events
import receiver.requests
import receiver.service.client
import receiver.service.responses
import receiver.testing
from receiver.events import EVENT_CLASSES

PACKAGE = Path(receiver.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "scaffold/" not in str(path.relative_to(PACKAGE)))
PROMISED = {
    "AsyncClient",
    "Client",
    "Context",
    "GiveUp",
    "Receiver",
    "Retry",
    "Router",
    "Settings",
    "parse_event",
    "sign",
    "verify",
}


def test_the_public_names_are_sorted_and_there() -> None:
    """Each can be imported, none twice."""
    assert receiver.__all__ == sorted(set(receiver.__all__))
    for name in receiver.__all__:
        assert hasattr(receiver, name)


def test_the_promised_names_are_public() -> None:
    """Design, section 6, and the README."""
    assert set(receiver.__all__) >= PROMISED


def test_the_root_exports_what_it_imports() -> None:
    """And nothing by accident: every import of the root is in its list."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    imported = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("receiver.")
        for alias in node.names
    ]

    assert sorted(imported) == receiver.__all__


@pytest.mark.parametrize(
    "module",
    [
        receiver,
        receiver.events,
        receiver.requests,
        receiver.service.responses,
        receiver.service.client,
        receiver.testing,
    ],
    ids=lambda module: module.__name__,
)
def test_every_public_name_is_explained(module: object) -> None:
    """Classes, functions, and their public methods."""
    missing = []
    for name in module.__all__:  # type: ignore[attr-defined]
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        if not thing.__doc__:
            missing.append(name)
        missing += [
            f"{name}.{attribute}"
            for attribute, value in vars(thing).items()
            if inspect.isfunction(value) and not attribute.startswith("_") and not value.__doc__
        ]

    assert missing == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    """In its first line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))

    assert docstring
    assert docstring.strip()


def test_every_event_class_can_be_imported_from_events() -> None:
    """Under its own name."""
    for event_class in EVENT_CLASSES.values():
        assert getattr(receiver.events, event_class.__name__) is event_class


def test_the_package_says_that_it_is_typed() -> None:
    """PEP 561."""
    assert (PACKAGE / "py.typed").exists()


def test_the_modules_import_from_where_things_are_defined() -> None:
    """Nothing inside the package imports its root, which only re-exports."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "receiver", path
                assert node.level == 0, path


def test_every_module_imports() -> None:
    """Also the ones that only a command loads."""
    for path in FILES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
