"""Uploaded files: the formats that are read, and the files that wait to be parsed."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.clock import Clock
from receiver.emulator.content.kinds import UPLOAD_FORMATS, ContentKind, kind_of
from receiver.emulator.failures import CallRefused

_TYPE_OF = {one.kind: one.types[0] for one in reversed(UPLOAD_FORMATS) if one.kind is not None}
_KNOWN_UNREADABLE = tuple(end for one in UPLOAD_FORMATS if one.kind is None for end in one.extensions)


def type_of_upload(body: bytes, name: str, content_type: str) -> str | None:
    """Return the media type by which a file is read; None if its kind cannot be read.

    The end of its name decides, then its type, then its first bytes.
    """
    if name.lower().rstrip().endswith(_KNOWN_UNREADABLE):
        return None
    kind = kind_of(body, content_type, name, name_first=True)
    if kind is ContentKind.UNSUPPORTED:
        return None
    _, semicolon, parameters = content_type.partition(";")
    return f"{_TYPE_OF[kind]}{semicolon}{parameters}"


MAX_BYTES = 50 * 1024 * 1024
"""Bytes of one file."""
KEPT_FOR = timedelta(minutes=10)
"""The time in which a file can be sent and parsed."""
_PER_TEAM = 10
_TOTAL_BYTES = 4 * MAX_BYTES
_TOTAL = 1_000
_MISSING = "No file waits under this uploadRef: it was never given, has expired, or was parsed"


@dataclass(slots=True)
class PendingUpload:
    """A file that was announced and may have arrived. Its sender needs no API key, only the reference."""

    team: str
    name: str
    content_type: str
    """Empty if it was not given."""
    expires_at: datetime
    """On the emulator's clock."""
    data: bytes | None = None
    """None before the file has arrived."""


class PendingUploads:
    """Keeps files in memory until they are parsed, within limits. The reference of a file is a secret."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, PendingUpload] = {}

    def announce(self, team: str, name: str, content_type: str) -> tuple[str, PendingUpload]:
        """Return a new reference and its upload. Raises CallRefused with status 429 if too many wait."""
        self._forget_old()
        of_team = sum(one.team == team for one in self._waiting.values())
        if of_team >= _PER_TEAM or len(self._waiting) >= _TOTAL:
            text = f"{_PER_TEAM} files wait already: parse them, or wait until they expire"
            raise CallRefused(429, text, code="PARSE_UPLOAD_UNPARSED_LIMIT_REACHED")
        reference = secrets.token_urlsafe(24)
        upload = PendingUpload(team, name, content_type, self._clock.now() + KEPT_FOR)
        self._waiting[reference] = upload
        return reference, upload

    def put(self, reference: str, data: bytes) -> None:
        """Keep a file. Raises CallRefused if its reference is unknown or there is no room for it."""
        upload = self._find(reference)
        if upload is None:
            raise CallRefused(404, "The upload URL is unknown or has expired", code="NOT_FOUND")
        if not data:
            raise CallRefused(400, "The uploaded file is empty", code="BAD_REQUEST")
        others = sum(len(one.data or b"") for one in self._waiting.values() if one is not upload)
        if others + len(data) > _TOTAL_BYTES:
            raise CallRefused(503, "The files that wait take too much memory", headers={"Retry-After": "60"})
        upload.data = data

    def take(self, team: str, reference: str) -> PendingUpload:
        """Return a file that has arrived, once. Raises CallRefused with status 400 if there is none."""
        upload = self._find(reference)
        if upload is None or upload.team != team:
            raise CallRefused(400, _MISSING, code="BAD_REQUEST")
        if upload.data is None:
            raise CallRefused(400, "The file has not come yet: send it to its uploadUrl first", code="BAD_REQUEST")
        return self._waiting.pop(reference)

    def forget_all(self) -> None:
        """Forget every file."""
        self._waiting.clear()

    def _find(self, reference: str) -> PendingUpload | None:
        self._forget_old()
        return self._waiting.get(reference)

    def _forget_old(self) -> None:
        now = self._clock.now()
        self._waiting = {key: one for key, one in self._waiting.items() if one.expires_at > now}
