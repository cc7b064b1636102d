"""The gate in front of every page: host names, password, cookie, form tokens, and the headers of answers."""

import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from receiver.core.addresses import is_loopback
from receiver.core.clock import Clock

COOKIE = "receiver_console"
SESSION_LENGTH = timedelta(hours=12)
MAX_TRIES = 5
"""Wrong passwords from one address within `TRIES_WITHIN`. Others can still sign in meanwhile."""
MAX_TRIES_OF_ALL = 60
"""Wrong passwords from all addresses together: whoever guesses may have many."""
TRIES_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that uses the console."""

    nonce: str
    signed_in: bool


class Sessions:
    """Makes and reads the cookies of one console. They end with it, at a sign-out, and after twelve hours."""

    def __init__(self, password: str | None) -> None:
        self._key = secrets.token_bytes(32)
        self._password = None if password is None else hashlib.sha256(password.encode()).digest()
        self._tries: deque[tuple[datetime, str]] = deque()
        self._ended: OrderedDict[str, datetime] = OrderedDict()
        """The nonces of those who signed out, until their cookies are over."""

    @property
    def needs_password(self) -> bool:
        """Whether visitors have to sign in."""
        return self._password is not None

    def begin(self, now: datetime, *, signed_in: bool) -> tuple[Session, str]:
        """Return a new session and the value of its cookie."""
        session = Session(secrets.token_urlsafe(18), signed_in)
        ends = int((now + SESSION_LENGTH).timestamp())
        said = f"{session.nonce}.{int(signed_in)}.{ends}"
        return session, f"{said}.{self._sign('cookie', said)}"

    def read(self, cookie: str | None, now: datetime) -> Session | None:
        """Return the session of a cookie; None if it is not from here, or over."""
        said, _, signature = (cookie or "").rpartition(".")
        if not _is_equal(self._sign("cookie", said), signature):
            return None
        nonce, signed_in, ends = said.split(".")
        is_over = nonce in self._ended or now.timestamp() >= int(ends)
        return None if is_over else Session(nonce, signed_in == "1")

    def end(self, session: Session, now: datetime) -> None:
        """Take a session's cookie no more, wherever a copy of it is."""
        while self._ended and next(iter(self._ended.values())) <= now:
            self._ended.popitem(last=False)
        if session.signed_in:
            self._ended[session.nonce] = now + SESSION_LENGTH

    def form_token(self, session: Session) -> str:
        """Return what every form of this session carries, so that no other site can send it."""
        return self._sign("form", session.nonce)

    def has_token(self, session: Session, given: str) -> bool:
        """Return whether a form came from this session, in constant time."""
        return _is_equal(self.form_token(session), given)

    def wait_for_next_try(self, client: str, now: datetime) -> timedelta | None:
        """Return how long an address may try no password, None if it may try one now."""
        while self._tries and now - self._tries[0][0] >= TRIES_WITHIN:
            self._tries.popleft()
        own = [at for at, one in self._tries if one == client]
        if len(own) >= MAX_TRIES:
            return own[0] + TRIES_WITHIN - now
        return None if len(self._tries) < MAX_TRIES_OF_ALL else self._tries[0][0] + TRIES_WITHIN - now

    def is_password(self, given: str, client: str, now: datetime) -> bool:
        """Return whether this is the password, in constant time. A wrong one counts as a try of the address."""
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        if self._password is not None and hmac.compare_digest(digest, self._password):
            return True
        self._tries.append((now, client))
        return False

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _is_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


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
                return  # no error: there is no one to answer, and anyone can cause it
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
    """Return whether a browser says that a request comes from a page of this console."""
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
