"""Finds the endpoint for a path, also when another app mounts the receiver."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.runtime.log_lines import event_log
from receiver.web.reception import sender_fields
from receiver.web.replies import not_found, send_reply, unavailable

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

log = event_log(__name__)

_ADVICE = (
    "give the outer app the lifespan of the receiver: FastAPI(lifespan=receiver.lifespan), or in a lifespan of "
    "your own `async with receiver.lifespan(app): yield`"
)


class EndpointPaths:
    """An ASGI app that serves each endpoint under its path. An unknown path is answered 404."""

    # A dictionary is enough: no path has parameters.

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._endpoints = dict(endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = self._endpoints.get(path_below_mount(scope), _unknown_path)
        await endpoint(scope, receive, send)


def path_below_mount(scope: Scope) -> str:
    """Return the path relative to the mount of the app (ASGI specification, HTTP scope, `root_path`)."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    # A proxy may have removed its own prefix; then the path has only the mounts (Starlette's Mount.matches).
    for mount in (root, root.removeprefix(scope.get("app_root_path", ""))):
        if path.startswith(f"{mount}/"):
            return path[len(mount) :]
    return path


class NotStarted:
    """An ASGI app that answers 503, because the lifespan of the receiver was not entered. The log says so once."""

    def __init__(self) -> None:
        self._logged = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not self._logged:
            self._logged = True
            log.error("lifespan_not_entered", extra={"advice": _ADVICE})
        await send_reply(unavailable(f"the receiver's lifespan has not started: {_ADVICE}"), send)


async def has_ended(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503, because the lifespan of the receiver is over."""
    await send_reply(unavailable("the receiver has stopped; send the delivery again"), send)


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 404. A POST is logged: it may be a delivery, sent to an address that does not fit RECEIVER_PATH."""
    if scope["method"] == "POST":
        sender = sender_fields(scope.get("client"), scope["path"], dict(scope["headers"]))
        detail = "there is no endpoint at this path; compare RECEIVER_PATH"
        log.warning("delivery_refused", extra={"reason": "not_found", "detail": detail, **sender})
    await send_reply(not_found(), send)


def spellings(path: str) -> tuple[str, str]:
    """Return the path with and without a slash at its end.

    A redirect to the other spelling would lose the delivery: the sender follows it as a GET.
    """
    return path, path.rstrip("/") + "/"


def serve_mounts_without_slash(routes: "list[BaseRoute]", app: ASGIApp) -> None:
    """Let requests for the path of a mount of `app`, without a slash at its end, reach `app` as well.

    Starlette would redirect them (`Router.redirect_slashes`), and the sender follows no redirect.
    """
    from starlette.routing import Mount, Route  # only under a mount: the command line serves without it

    served = {one.path for one in routes if isinstance(one, Route) and isinstance(one.app, _AtMount)}
    for mount in [one for one in routes if isinstance(one, Mount)]:
        if mount.app is not app:
            serve_mounts_without_slash(mount.routes, app)
        elif mount.path and mount.path not in served:
            added = Route(mount.path, _AtMount(app, mount.path), include_in_schema=False)
            routes.insert(routes.index(mount), added)


class _AtMount:
    """An ASGI app that passes a request for the path of a mount on, as if the path ended with a slash."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        below = {"path": scope["path"] + "/", "root_path": root + self._path, "app_root_path": root}
        await self._app({**scope, **below}, receive, send)
