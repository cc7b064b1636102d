"""The texts below the fields of a class, which Python itself does not keep."""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise


def field_texts(declared: type) -> dict[str, str]:
    """Return the text below each field that a class and its bases declare, those of bases first, each on one line.

    A field of a subclass replaces one of the same name.
    """
    texts: dict[str, str] = {}
    for base in _bases(declared):
        if isinstance(base, type) and base.__module__.startswith("receiver."):
            texts |= field_texts(base)
    return texts | dict(_texts(declared))


def _bases(declared: type) -> tuple[object, ...]:
    """Return the bases as they are written. A TypedDict is a subclass of `dict` alone, whatever its bases are."""
    return getattr(declared, "__orig_bases__", declared.__bases__)


def _texts(declared: type) -> Iterator[tuple[str, str]]:
    tree = next(one for one in ast.parse(inspect.getsource(declared)).body if isinstance(one, ast.ClassDef))
    for field, text in pairwise(tree.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, re.sub(r"\s+", " ", words)
