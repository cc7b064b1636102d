"""Who may use the console: the password, the signed cookie, and the token in every form."""

import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta

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
        """Whether somebody has to sign in."""
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
        """Tell whether a form came from this session, in constant time."""
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
        """Tell whether this is the password, in constant time. A wrong one counts as a try of the address."""
        digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).digest()
        if self._password is not None and hmac.compare_digest(digest, self._password):
            return True
        self._tries.append((now, client))
        return False

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _is_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
