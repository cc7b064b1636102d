"""Every field of the models and records that users meet is explained, and no class name stands for two things."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import receiver
from receiver.settings import Settings

PACKAGE = Path(receiver.__file__).parent
EXPLAINED = ("events", "requests", "signals", "service")
"""The packages in which each field of each class is explained below it."""

Classes = dict[str, ast.ClassDef]


def class_definitions(*folders: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Yield the classes of modules below some folders of the package."""
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield path.relative_to(PACKAGE), node


def fields_of(definition: ast.ClassDef) -> dict[str, bool]:
    """Return the fields that a class declares, and whether a docstring stands below each."""
    fields = {}
    for statement, after in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if "ClassVar" not in ast.unparse(statement.annotation):
            explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            fields[statement.target.id] = explained
    return fields


def explained_fields(name: str, classes: Classes) -> set[str]:
    """Return the fields that a class or one of its bases explains. A base explains what its subclasses narrow."""
    if name not in classes:
        return set()
    own = {field for field, explained in fields_of(classes[name]).items() if explained}
    bases = [ast.unparse(base).partition("[")[0] for base in classes[name].bases]
    return own.union(*(explained_fields(base, classes) for base in bases))


def test_every_field_says_what_it_holds() -> None:
    """A docstring below the field, or below the field of the base class that it narrows.

    The clients' keyword options are fields of the requests, which explain them; a test compares both.
    """
    found = class_definitions(*EXPLAINED)
    classes = {definition.name: definition for path, definition in found if path.name != "keywords.py"}

    missing = {
        name: sorted(fields_of(definition).keys() - explained_fields(name, classes))
        for name, definition in classes.items()
    }

    assert {name: fields for name, fields in missing.items() if fields} == {}


def test_every_setting_says_what_it_does() -> None:
    """Its description is also the help of the flag."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_class_name_is_used_once_in_the_package() -> None:
    """Private classes too: a name in a traceback or a message then leads to one place."""
    places = defaultdict(list)
    for path, definition in class_definitions(""):
        if path.parts[0] != "scaffold":
            places[definition.name].append(str(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
