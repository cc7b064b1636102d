"""The trace of a delivery, kept with its headers: https://www.w3.org/TR/trace-context/

The fields that we add have names with a colon in front, such as `:traceparent`. No header of a request can have
such a name (RFC 9110, section 5.1), so nobody outside can send one, and what was sent stays as it was.
"""

from collections.abc import Mapping

from receiver.core.types import Headers

_MARK = ":"
_FIELDS = ("traceparent", "tracestate")


def with_trace(headers: Headers, fields: Mapping[str, str]) -> Headers:
    """Return the headers with the fields of a trace behind them."""
    return (*headers, *((_MARK + name, value) for name, value in fields.items()))


def trace_of(headers: Headers) -> Mapping[str, str]:
    """Return the fields that continue the trace of a delivery: those that were added, else those that were sent."""
    found = dict(headers)
    for mark in (_MARK, ""):
        if fields := {name: found[mark + name] for name in _FIELDS if mark + name in found}:
            return fields
    return {}


def as_sent(headers: Headers) -> Headers:
    """Return a tuple of the headers as the sender wrote them."""
    if headers and headers[-1][0].startswith(_MARK):
        return tuple([header for header in headers if not header[0].startswith(_MARK)])
    return tuple(headers)
