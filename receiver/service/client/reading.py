"""From an answer to a result or an error."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import SecretStr

from receiver.core.body_cost import MAX_BODY_COST, body_cost
from receiver.core.envelope import NotJson, load_json
from receiver.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    KeyRefused,
    NotFound,
    NotSuccessful,
    PaymentRequired,
    RateLimited,
    ScrapeTimedOut,
    ServerError,
    ServiceError,
    UnexpectedAnswer,
    Unprocessable,
)
from receiver.events.documents.shape import ServiceModel
from receiver.runtime.log_lines import event_log
from receiver.service.client.calls import ServiceCall, ServiceResponse

log = event_log(__name__)

T = TypeVar("T")
S = TypeVar("S", bound=ServiceModel)

_ERRORS: Mapping[int, type[ServiceError]] = {
    401: KeyRefused,
    402: PaymentRequired,
    403: Forbidden,
    404: NotFound,
    408: ScrapeTimedOut,
    409: Conflict,
    422: Unprocessable,
    429: RateLimited,
}
MAX_TEXT_LENGTH = 1000
MAX_ERROR_DEPTH = 32
"""Error bodies have two or three levels. What lies deeper than this is left out."""
MAX_WAIT_SECONDS = 86_400
_WAIT_IN_WORDS = re.compile(r"retry after (\d{1,5}(?:\.\d+)?) ?s", re.IGNORECASE)
_ID_IN_WORDS = re.compile(r"\b(?:exception ID is|Error ID:) ([\w-]{1,100})")
_WAIT_KEYS = ("retry_after_seconds", "retryAfterSeconds")


class UndocumentedPart(ValueError):
    """An answer lacks a part that it has by the documentation. The text names the part only."""


def read_answer(call: ServiceCall[T], answer: ServiceResponse, *, key: SecretStr, now: datetime) -> T:
    """Return the result of a call, or raise a ServiceError for its answer. `key` is removed from every text."""
    if answer.status == HTTPStatus.NO_CONTENT and call.read is nothing:
        return call.read({})
    if 200 <= answer.status < 300:
        body = _json_object(call, answer)
        reports = call.about_job and isinstance(body.get("status"), str)
        if body.get("success") is False and not reports:
            raise _error(NotSuccessful, call, answer, body, key, now)
        try:
            return call.read(body)
        except UndocumentedPart as exc:
            raise UnexpectedAnswer(f"{_named(call)}: not as documented: {exc}", status=answer.status) from None
        except ValueError:  # also pydantic's own error, whose text could quote the page
            raise UnexpectedAnswer(f"{_named(call)}: not as documented", status=answer.status) from None
    if answer.status < 400:
        raise UnexpectedAnswer(f"{_named(call)}: a redirect, which is not followed", status=answer.status)
    kind = ServerError if answer.status >= 500 else _ERRORS.get(answer.status, BadRequest)
    raise _error(kind, call, answer, _lenient_object(answer.body), key, now)


def _named(call: ServiceCall[Any]) -> str:
    return f"{call.method} {call.path}"


def _json_object(call: ServiceCall[Any], answer: ServiceResponse) -> Mapping[str, Any]:
    if _is_costly(answer.body):
        mebibytes = MAX_BODY_COST // (1024 * 1024)
        words = f"it would take more than {mebibytes} MiB of memory; ask for fewer results at once"
        raise UnexpectedAnswer(f"{_named(call)}: not read, because {words}", status=answer.status)
    try:
        value = load_json(answer.body)
    except NotJson:
        raise UnexpectedAnswer(f"{_named(call)}: no JSON, or cut short", status=answer.status) from None
    if not isinstance(value, Mapping):
        raise UnexpectedAnswer(f"{_named(call)}: JSON, and no object", status=answer.status)
    return value


def _lenient_object(body: bytes) -> Mapping[str, Any]:
    """Return the object in an error's body; empty if a proxy on the way wrote something else."""
    try:
        value = {} if _is_costly(body) else load_json(body)
    except NotJson:
        return {}
    return value if isinstance(value, Mapping) else {}


def _is_costly(body: bytes) -> bool:
    """Return whether an answer takes too much memory, by the rule for bodies of deliveries."""
    return body_cost(body, precise_from=MAX_BODY_COST) > MAX_BODY_COST


def _error(
    kind: type[ServiceError],
    call: ServiceCall[Any],
    answer: ServiceResponse,
    body: Mapping[str, Any],
    key: SecretStr,
    now: datetime,
) -> ServiceError:
    clean = _without(key.get_secret_value(), body)
    said, code = _text(clean.get("error")), _text(clean.get("code"))
    request_id = _request_id(_without(key.get_secret_value(), answer.headers), clean)
    words = " ".join((said or _phrase(answer.status)).split())
    about = ", ".join(filter(None, (code, request_id and f"request {request_id}")))
    return kind(
        f"{_named(call)}: {answer.status} {words}{f' ({about})' if about else ''}",
        status=answer.status,
        said=said,
        code=code,
        request_id=request_id,
        retry_after=wait_asked_for(answer.headers, body, now=now),
        answer=clean,
    )


def _request_id(headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """Return the id by which the operators of the service find this call, None if the answer has none.

    The service documents no header for it. The text of an unexpected error has an id (its source,
    getErrorContactMessage). Its SDK 4.53.2 sends `X-Request-Id` with some calls, and a gateway may add that header.
    """
    found = _ID_IN_WORDS.search(_text(body.get("error")) or "")
    return _text(headers.get("x-request-id")) or _text(body.get("requestId")) or (found and found[1])


def wait_asked_for(headers: Mapping[str, str], body: Mapping[str, Any], *, now: datetime) -> timedelta | None:
    """Return how long an answer asks to wait, by its header, a field or its text, at most a day."""
    seconds: float | None = _header_seconds(headers, now)
    details = body.get("details")
    for place in (body, details if isinstance(details, Mapping) else {}):
        for name in _WAIT_KEYS:
            given = place.get(name)
            if seconds is None and isinstance(given, int | float) and not isinstance(given, bool):
                seconds = given
    if seconds is None and (found := _WAIT_IN_WORDS.search(_text(body.get("error")) or "")):
        seconds = float(found[1])
    if seconds is None or seconds != seconds:
        return None
    return timedelta(seconds=min(max(seconds, 0), MAX_WAIT_SECONDS))


def _header_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, section 10.2.3).

    A date is one of the service's clock, which its `Date` header shows. Our own clock may differ from it.
    """
    asked = headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,10}", asked.strip()):
        return float(asked)
    moment = _http_date(asked)
    return None if moment is None else (moment - (_http_date(headers.get("date", "")) or now)).total_seconds()


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if moment.tzinfo is None else moment


def _text(value: object) -> str | None:
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) and value else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _without(key: str, value: Any, depth: int = 0) -> Any:
    """Return a JSON value without the key in any text: a server may echo what it got."""
    if depth > MAX_ERROR_DEPTH:
        return None
    match value:
        case str():
            return value.replace(key, "***")
        case Mapping():
            return {_without(key, name): _without(key, item, depth + 1) for name, item in value.items()}
        case list():
            return [_without(key, item, depth + 1) for item in value]
    return value


def whole(model: type[S], *, needs: str) -> Callable[[Mapping[str, Any]], S]:
    """Read the whole answer as a model. Without the attribute `needs` it is something else."""

    def read(body: Mapping[str, Any]) -> S:
        return _with(needs, model.read(body))

    return read


def data_of(model: type[S], *, needs: str | None = "id") -> Callable[[Mapping[str, Any]], S]:
    """Read the object in `data` as a model. Without the attribute `needs`, if any, it is something else."""

    def read(body: Mapping[str, Any]) -> S:
        data = body.get("data")
        if not isinstance(data, Mapping):
            raise UndocumentedPart("no object in `data`")
        return _with(needs, model.read(data))

    return read


def _with(needed: str | None, found: S) -> S:
    if needed is None:
        return found
    value = getattr(found, needed)
    if value is None or not (value or needed in found.model_fields_set):
        raise UndocumentedPart(f"no `{needed}`, or in another form")
    return found


def items_of(model: type[S], name: str) -> Callable[[Mapping[str, Any]], list[S]]:
    """Read the objects in the list of this name as models. What is no object is left out, with a warning."""

    def read(body: Mapping[str, Any]) -> list[S]:
        items = body.get(name)
        if not isinstance(items, list):
            raise UndocumentedPart(f"no list in `{name}`")
        objects = [item for item in items if isinstance(item, Mapping)]
        if items and not objects:
            raise UndocumentedPart(f"no object in `{name}`")
        if len(objects) < len(items):
            log.warning("service_items_skipped", extra={"path": name, "count": len(items) - len(objects)})
        return [model.read(item) for item in objects]

    return read


def nothing(body: Mapping[str, Any]) -> None:
    """Read an answer without a result: it says only that the call succeeded."""
