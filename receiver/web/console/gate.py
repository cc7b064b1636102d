"""The gate in front of every page: host names, sign-in, form tokens, and the headers of every answer."""

from collections.abc import Collection
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from receiver.core.addresses import is_loopback
from receiver.core.clock import Clock
from receiver.web.console.sessions import COOKIE, SESSION_LENGTH, Session, Sessions

MAX_FORM = 64 * 1024
"""Bytes of a form. All of ours are far shorter."""
_SAFE_METHODS = ("GET", "HEAD")
_OPEN_PATHS = ("/sign-in",)
_STATIC = "/static/"
_ROOT = "receiver.console.root"
"""Where the scope keeps the root path: a mount inside of the console puts its own in the usual place."""
_HEADERS = {
    # No inline script or style, nothing from another host, and nobody may frame a page or take its forms.
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer a browser sends forms with `Origin: null`
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Gate:
    """Lets a request through to the pages if its host, its session and its form are right.

    The `Host` header has to be a loopback name or one of `names`: a foreign page whose name leads to this machine
    sends its own name (DNS rebinding). A POST needs the token of its session and must not come from another site.
    """

    def __init__(
        self, app: ASGIApp, *, sessions: Sessions, clock: Clock, names: Collection[str], read_only: bool
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._clock = clock
        self._names = frozenset(name.lower() for name in names)
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope. A request whose client goes away before its end gets no answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_ROOT] = str(scope.get("root_path", "")).rstrip("/")
        request = Request(scope, receive)
        path = path_inside(scope)
        session = self._sessions.read(request.cookies.get(COOKIE), self._clock.now())
        refusal = self._refusal(request, path, session)
        form = None
        if refusal is None and request.method not in _SAFE_METHODS:
            try:
                form = await _read_form(request)
            except ClientDisconnect:
                return  # nobody is left to answer, and anybody can do so as often as they like
            if form is None:
                refusal = PlainTextResponse("The form is too long.", 413)
            elif session is None or not self._sessions.has_token(session, _first(form, "token")):
                refusal = PlainTextResponse(
                    "The form is too old. Go back, reload the page, and send it again.", 403
                )
        if refusal is not None:
            await refusal(scope, receive, self._with_headers(send, request, None))
            return
        cookie = None
        if session is None and not path.startswith(_STATIC):  # no form is there
            session, cookie = self._sessions.begin(self._clock.now(), signed_in=False)
        token = "" if session is None else self._sessions.form_token(session)
        is_signed_in = session is not None and session.signed_in
        scope.setdefault("state", {}).update(
            session=session,
            signed_in=is_signed_in,
            is_in=is_signed_in or not self._sessions.needs_password,
            token=token,
            form=form,
            read_only=self._read_only,
        )
        await self._app(scope, receive, self._with_headers(send, request, cookie))

    def _refusal(self, request: Request, path: str, session: Session | None) -> Response | None:
        host = _host_name(request.headers)
        if not is_loopback(host) and host not in self._names:
            return PlainTextResponse(
                "This console does not answer to this host name. RECEIVER_CONSOLE_NAMES lists the names it has.",
                421,
            )
        if request.method not in (*_SAFE_METHODS, "POST"):
            return PlainTextResponse("Only GET and POST.", 405, {"allow": "GET, HEAD, POST"})
        if request.method == "POST" and not _comes_from_here(request.headers):
            return PlainTextResponse("The form comes from another site.", 403)
        is_open = path in _OPEN_PATHS or path.startswith(_STATIC)
        if self._sessions.needs_password and not is_open and not (session and session.signed_in):
            if request.method == "POST":
                return PlainTextResponse("Sign in first.", 403)
            if request.headers.get("hx-request"):  # a page within a part of the page would be shown there
                return PlainTextResponse("Sign in first.", 403, {"hx-refresh": "true"})
            target = quote(path + (f"?{request.url.query}" if request.url.query else ""))
            return RedirectResponse(f"{scope_root(request.scope)}/sign-in?next={target}", 303)
        if request.method == "POST" and self._read_only and path not in ("/sign-in", "/sign-out"):
            return PlainTextResponse("This console is read-only.", 403)
        return None

    def _with_headers(self, send: Send, request: Request, cookie: str | None) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                # Files are the same for all, and have an ETag. A page that says that there is none has a token.
                is_file = path_inside(request.scope).startswith(_STATIC) and "etag" in headers
                headers.setdefault("cache-control", "no-cache" if is_file else "no-store")
                if cookie is not None and "set-cookie" not in headers:
                    headers.append("set-cookie", cookie_header(cookie, request))
            await send(message)

        return send_with_headers


def cookie_header(cookie: str, request: Request) -> str:
    """Return the header that gives a browser its session.

    It is Lax: with Strict, who follows a link from a chat would come without it, and lose it to the new one of the
    sign-in. No GET changes anything.
    """
    secure = "; Secure" if request.url.scheme == "https" else ""
    path = scope_root(request.scope) or "/"
    age = int(SESSION_LENGTH.total_seconds())
    return f"{COOKIE}={cookie}; Max-Age={age}; Path={path}; HttpOnly; SameSite=Lax{secure}"


def scope_root(scope: Scope) -> str:
    """Return the path under which the console is mounted, quoted, without a slash at its end."""
    return quote(str(scope.get(_ROOT, "")), safe="/:@!$&'()*+,=~-._")


def path_inside(scope: Scope) -> str:
    """Return the path of a request without that under which the console is mounted."""
    path, root = str(scope["path"]), str(scope.get(_ROOT, ""))
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def local_target(target: str) -> str:
    """Return a path of this console to go to; its first page for everything that leads elsewhere."""
    leads_elsewhere = not target.startswith("/") or target.startswith(("//", "/\\"))
    return "/" if leads_elsewhere or not target.isprintable() else target


def _host_name(headers: Headers) -> str:
    """Return the name of the host without its port; an empty text for several or none."""
    hosts = headers.getlist("host")
    if len(hosts) != 1:
        return ""
    try:
        return (urlsplit(f"//{hosts[0]}").hostname or "").lower()
    except ValueError:
        return ""


def _comes_from_here(headers: Headers) -> bool:
    """Tell whether a browser says that a request comes from a page of this console."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:  # brackets that do not belong to an address
        return False


async def _read_form(request: Request) -> dict[str, list[str]] | None:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            return None
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return {}


def _first(form: dict[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0]
