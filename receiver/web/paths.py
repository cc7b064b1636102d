"""Finds the endpoint for a path, also when another app mounts the receiver."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from receiver.web.replies import not_found, unavailable


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


async def not_running(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503, because the lifespan of the app has not been entered."""
    detail = "the receiver's lifespan has not started: pass lifespan=receiver.lifespan to the outer app"
    for message in unavailable(detail):
        await send(message)


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    for message in not_found():
        await send(message)
