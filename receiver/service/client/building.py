"""Requests from what a caller gives: a whole request, or its main value and keyword options."""

from collections.abc import Mapping
from typing import Any, TypeVar

from receiver.requests.base import Request
from receiver.requests.webhooks import WebhookConfig

R = TypeVar("R", bound=Request)


def made_of(
    kind: type[R],
    main: str,
    given: object,
    options: Mapping[str, Any],
    *,
    webhook: WebhookConfig | str | None = None,
) -> R:
    """Return the request: the one that is given, or one whose field `main` has the given value.

    A TypeError refuses options beside a whole request, a ValueError what the service would refuse. A webhook
    replaces that of the request.
    """
    if isinstance(given, Request):
        if options:
            raise TypeError(f"{', '.join(options)}: give a whole {type(given).__name__} or options, not both")
        if not isinstance(given, kind):
            raise TypeError(f"give a {kind.__name__}, not a {type(given).__name__}")
        return given if webhook is None else kind.model_validate({**given.wire(), "webhook": webhook})
    found = dict(options) if webhook is None else {**options, "webhook": webhook}
    return kind(**found) if given is None else kind(**{main: given}, **found)
