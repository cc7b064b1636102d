"""The mount of the receiver in another app: its path without a slash leads there too."""

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send


def serve_mounts_without_slash(routes: list[BaseRoute], app: ASGIApp) -> None:
    """Let requests for the path of a mount of `app`, without a slash behind it, reach `app` as well.

    Starlette would redirect them (`Router.redirect_slashes`), and the sender follows no redirect.
    """
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
