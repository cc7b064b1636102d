"""The spans of HTTP requests: those that clients and senders send, and those that the emulator answers.

Names and attributes are those of OpenTelemetry's conventions: https://opentelemetry.io/docs/specs/semconv/http/http-spans/
"""

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from receiver.signals.traces.spans import AttributeValues, context_of, end, fields_of, log_failure, tracer

_SERVER_ERROR = 500
_CLIENT_ERROR = 400


class _HttpSpan:
    def __init__(self, span: Span, method: str, *, failed_from: int) -> None:
        self._span = span
        self._method = method
        self._failed_from = failed_from

    def note_status(self, status: int) -> None:
        """Note the status of the answer."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= self._failed_from:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(Status(StatusCode.ERROR))

    def note_route(self, route: str) -> None:
        """Note the path of the operation, with placeholders for ids."""
        self._span.set_attribute("http.route", route)
        self._span.update_name(f"{self._method} {route}")


@contextmanager
def sent(method: str, url: str, headers: MutableMapping[str, str]) -> Iterator[_HttpSpan]:
    """Return the span of a request that is sent in the block, and add its trace to `headers`.

    A trace in `headers` is continued, else that of what runs now. The query of the address is no attribute: it may
    contain what a user asked for, or a key.
    """
    parts = urlsplit(url)
    attributes: AttributeValues = {
        "http.request.method": method,
        "server.address": parts.hostname or "",
        "url.full": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}",
    }
    with suppress(ValueError):  # no such port: sending will fail, and say why
        if port := parts.port or {"http": 80, "https": 443}.get(parts.scheme):
            attributes["server.port"] = port
    parent = context_of(headers) if "traceparent" in headers else None
    span = _begin(method, parent, SpanKind.CLIENT, attributes)
    headers.update(fields_of(span))
    with _ended(span):
        yield _HttpSpan(span, method, failed_from=_CLIENT_ERROR)


@contextmanager
def answered(method: str, headers: Mapping[str, str]) -> Iterator[_HttpSpan]:
    """Return the span of a request that is answered in the block. It belongs to the trace that its headers name."""
    span = _begin(method, context_of(headers), SpanKind.SERVER, {"http.request.method": method})
    with _ended(span):
        yield _HttpSpan(span, method, failed_from=_SERVER_ERROR)


def _begin(method: str, parent: Context | None, kind: SpanKind, attributes: AttributeValues) -> Span:
    try:
        return tracer().start_span(method, context=parent, kind=kind, attributes=attributes)
    except Exception as exc:
        log_failure(exc)
        return trace.INVALID_SPAN


@contextmanager
def _ended(span: Span) -> Iterator[None]:
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as exc:
        # Without its text: an exception of an HTTP library may quote the request.
        span.set_attribute("error.type", type(exc).__qualname__)
        span.set_status(Status(StatusCode.ERROR))
        raise
    finally:
        end(span)
