"""From one page of an operation to the next."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from receiver.errors import UnexpectedAnswer
from receiver.service.client.calls import ServiceCall

T = TypeVar("T")

MAX_ADDRESS_LENGTH = 8000
MAX_PAGES = 10_000
"""The most pages of one operation: a million results, by the service's 100 at once."""


class Pages(Generic[T]):
    """Finds the call for the next page. `call` is the one to make now, None after the last page.

    Only path and query of an answer's `next` are used: its host may be another one, and that must not get our key.
    A running job always names a next page, sometimes the page that was just read. An address that was read before
    is the end. A service that always names a new one is an error: UnexpectedAnswer.
    """

    def __init__(self, first: ServiceCall[T], *, base_path: str) -> None:
        self.call: ServiceCall[T] | None = first
        self._base_path = base_path.rstrip("/")
        query = urlencode(first.query)
        self._seen = {f"{first.path}?{query}" if query else first.path}
        self._last: Sequence[Any] = ()

    def turn(self, page: T) -> None:
        """Go on after this page."""
        call, self.call = self.call, None
        address = call.next(page) if call is not None and call.next is not None else None
        if call is None or not address:
            return
        items = call.items(page) if call.items is not None else ()
        if items and items == self._last:
            raise UnexpectedAnswer(f"{call.method} {call.path}: the same results as on the page before")
        self._last = items
        target = self._target(call, address)
        if target in self._seen:
            return
        if len(self._seen) == MAX_PAGES:
            raise UnexpectedAnswer(f"{call.method} {call.path}: after {MAX_PAGES:,} pages it names a next one")
        self._seen.add(target)
        self.call = replace(call, path=target, query={})

    def _target(self, call: ServiceCall[T], address: str) -> str:
        """Return path and query, relative to the service's address."""
        try:
            if not address.isascii() or not address.isprintable() or len(address) > MAX_ADDRESS_LENGTH:
                raise ValueError("not a form that can be asked for")
            parts = urlsplit(address)
        except ValueError:
            raise UnexpectedAnswer(f"{call.method} {call.path}: its next page has no address") from None
        path = "/" + parts.path.lstrip("/")
        if path.startswith(f"{self._base_path}/"):
            path = path.removeprefix(self._base_path)
        return f"{path}?{parts.query}" if parts.query else path
