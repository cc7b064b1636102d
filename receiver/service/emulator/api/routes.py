"""Which operation a request is for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from receiver.service.emulator.api.calls import ApiOperation


@dataclass(frozen=True, slots=True)
class FoundOperation:
    """What a path leads to: one operation, or the methods that the path has."""

    operation: ApiOperation | None
    """The operation; None if the path does not have this method, or is unknown."""
    path: Mapping[str, str]
    """The parameters of the path."""
    methods: tuple[str, ...]
    """The methods of the path; none for an unknown one."""


class RouteTable:
    """All operations. Of two paths that fit, the one with more fixed segments wins, as `/crawl/active` does."""

    def __init__(self, operations: Iterable[ApiOperation]) -> None:
        self._paths: dict[tuple[str, ...], dict[str, ApiOperation]] = {}
        for operation in operations:
            methods = self._paths.setdefault(_segments(operation.path), {})
            if operation.method in methods:
                raise ValueError(f"{operation.method} {operation.path} is given twice")
            methods[operation.method] = operation

    def find(self, method: str, path: str) -> FoundOperation:
        """Return what a request is for. A slash at the end of the path does not matter."""
        segments = _segments(path)
        fitting = [template for template in self._paths if _fits(template, segments)]
        if not fitting:
            return FoundOperation(None, {}, ())
        template = min(fitting, key=lambda one: sum(map(_is_parameter, one)))
        methods = self._paths[template]
        values = {name[1:-1]: value for name, value in zip(template, segments, strict=True) if _is_parameter(name)}
        return FoundOperation(methods.get(method), values, tuple(sorted(methods)))


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _fits(template: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    return len(template) == len(segments) and all(
        (_is_parameter(one) and other != "") or one == other for one, other in zip(template, segments, strict=True)
    )
