"""Signing in and out."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.runtime.log_lines import event_log
from receiver.web.console.gate import cookie_header, local_target
from receiver.web.console.parts import ConsolePages, client_of, get, go_to, post

log = event_log(__name__)


class SignInPages(ConsolePages):
    """Signing in and out."""

    @override
    def routes(self) -> list[Route]:
        return [get("/sign-in", self._show), post("/sign-in", self._sign_in), post("/sign-out", self._sign_out)]

    def _form(self, request: Request, target: str, error: str = "", status: int = 200) -> Response:
        return self._parts.pages.page(request, "sign_in.html", {"next": target, "error": error}, status=status)

    async def _show(self, request: Request) -> Response:
        return self._form(request, local_target(request.query_params.get("next", "/")))

    async def _sign_in(self, request: Request) -> Response:
        given, now, client = self._parts.form(request), self._parts.clock.now(), client_of(request)
        target = local_target(given.given.get("next", "/"))
        if wait := self._parts.sessions.wait_for_next_try(client, now):
            answer = self._form(request, target, "Too many wrong passwords. Try again in a minute.", 429)
            answer.headers["retry-after"] = str(max(1, round(wait.total_seconds())))
            return answer
        if not self._parts.sessions.is_password(given.given.get("password", ""), client, now):
            log.warning("console_sign_in_refused", extra={"client": client})
            return self._form(request, target, "That is not the password.", 403)
        log.info("console_signed_in", extra={"client": client})
        _, cookie = self._parts.sessions.begin(now, signed_in=True)  # a new one: nobody can have set it before
        answer = go_to(request, target)
        answer.headers["set-cookie"] = cookie_header(cookie, request)
        return answer

    async def _sign_out(self, request: Request) -> Response:
        now = self._parts.clock.now()
        self._parts.sessions.end(request.state.session, now)
        _, cookie = self._parts.sessions.begin(now, signed_in=False)
        answer = go_to(request, "/sign-in")
        answer.headers["set-cookie"] = cookie_header(cookie, request)
        return answer
