"""Intake checks limits, authentication and envelope of a request, and passes it to the store."""

import asyncio
import base64
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NoReturn

from receiver.core.clock import Clock
from receiver.core.deliveries import Delivery, Quarantined, Receipt
from receiver.core.envelope import masked_header, read_envelope
from receiver.core.ports.log import DeliveryLog
from receiver.core.signing import token_matches, verify
from receiver.core.types import AppendOutcome, Headers
from receiver.errors import Malformed, Overloaded, TooLarge, Unauthenticated
from receiver.runtime.log_lines import LineRate, event_log
from receiver.signals.contracts import (
    DeliveryAccepted,
    DeliveryDuplicated,
    DeliveryRefused,
    delivery_accepted,
    delivery_duplicated,
    delivery_refused,
)
from receiver.signals.traces.contracts import DeliveryTraces, Stored

log = event_log(__name__)

_GROUP = 3
_SHORTEST_FORM = 4
"""A shorter form would match many headers that contain no secret."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")

_PER_REQUEST = 4096
"""Bytes that a request needs besides its body: for its headers and its place in the queue."""
_LONG_BODY = 256 * 1024


class Authenticator:
    """Checks that a request comes from the service. Without secrets and tokens every request passes.

    If there are secrets and the request has the signature header, only the signature counts. Otherwise the static
    header counts.
    """

    def __init__(
        self,
        *,
        signature_header: str,
        secrets: Sequence[str],
        token_header: str | None,
        tokens: Sequence[str],
        other_secrets: Sequence[str] = (),
    ) -> None:
        """`other_secrets` do not authenticate requests; they are only masked in stored headers."""
        self._signature_header = signature_header.lower().encode()
        self._secrets = tuple(secrets)
        self._token_header = token_header.lower().encode() if token_header else None
        self._tokens = tuple(tokens)
        named = {self._signature_header, self._token_header}
        secret_headers = frozenset(name for name in named if name is not None)
        secret_values = secret_forms((*secrets, *tokens, *other_secrets))
        # Each signature is another one.
        self._always_masked = {name: masked_header(name, b"", also=secret_headers) for name in secret_headers}
        # Nearly all others come with every delivery. One has at most 32 KiB, as bytes and as text: 16 MiB in all.
        self._masked = functools.lru_cache(maxsize=256)(
            functools.partial(masked_header, also=secret_headers, values=secret_values)
        )

    def check_headers(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Unauthenticated if the headers alone show that the request is not authentic."""
        if not self._secrets and not self._tokens:
            return
        if self._secrets and self._signature_header in headers:
            return
        if self._token_header is None:
            raise Unauthenticated(f"the request has no {self._signature_header.decode()} header")
        if not token_matches(headers.get(self._token_header, b"").decode("latin-1"), self._tokens):
            raise Unauthenticated("the request carries no valid credentials")

    def check_body(self, headers: Mapping[bytes, bytes], body: bytes) -> None:
        """Raise Unauthenticated if there are secrets and the signature does not match this body."""
        signature = headers.get(self._signature_header)
        if self._secrets and signature is not None and not verify(body, signature.decode("latin-1"), self._secrets):
            raise Unauthenticated("the signature does not match the body and the configured secret")

    def masked(self, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the headers as they may be stored."""
        always, masked = self._always_masked, self._masked
        return tuple([always.get(name) or masked(name, value) for name, value in headers])


def secret_forms(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the bytes that show a secret in a header: in plain text, and inside text in base64.

    Base64 encodes groups of three bytes, so there are three forms, one for each place of the first byte in a group.
    The first and last character of a form may contain bits of other bytes; they are left out.
    """
    forms: dict[bytes, None] = {}
    for secret in secrets:
        plain = secret.encode()
        forms[plain] = None
        for before in range(_GROUP):
            encoded = base64.b64encode(b"\0" * before + plain).rstrip(b"=")
            complete = len(encoded) - (1 if (before + len(plain)) % _GROUP else 0)
            form = encoded[before + 1 if before else 0 : complete]
            if len(form) >= _SHORTEST_FORM:
                forms[form] = None
                forms[form.translate(_URL_SAFE)] = None
    return tuple(forms)


class Budget:
    """Bytes that all requests together may hold at one time."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._left = total
        self.received = 0

    @property
    def taken(self) -> int:
        """Bytes that requests hold now."""
        return self._total - self._left

    def take(self, size: int) -> None:
        """Take bytes, or raise Overloaded and take none."""
        if size > self._left:
            raise Overloaded("too many bytes are being received now")
        self._left -= size

    def give(self, size: int) -> None:
        """Give bytes back."""
        self._left += size


class Admission:
    """The bytes of the budget that one request holds, and the check of its size.

    Only bytes that have arrived count. If announced bytes counted, a few idle clients could use up the budget.
    """

    __slots__ = ("_budget", "_held", "_max_body", "_received")

    def __init__(self, budget: Budget, *, max_body: int, announced: int | None) -> None:
        if announced is not None and announced > max_body:
            _too_large(max_body)
        self._budget = budget
        self._max_body = max_body
        self._received = 0
        self._held = _PER_REQUEST
        budget.take(self._held)

    def grow(self, size: int) -> None:
        """Count bytes of the body that arrived. Raises TooLarge or Overloaded if they are too many."""
        self._received += size
        self._budget.received += size
        if self._received > self._max_body:
            _too_large(self._max_body)
        self._budget.take(size)
        self._held += size

    def release(self) -> None:
        """Give all bytes back. A second call changes nothing."""
        self._budget.give(self._held)
        self._held = 0


class Intake:
    """Checks requests and passes their deliveries to one store."""

    quarantined = 0
    """Number of authentic bodies without an envelope that were stored in quarantine since the start."""

    def __init__(
        self,
        deliveries: DeliveryLog,
        gate: Authenticator,
        clock: Clock,
        *,
        max_body: int,
        max_in_flight: int,
        traces: DeliveryTraces | None = None,
    ) -> None:
        self._traces = traces
        self._log = deliveries
        self._gate = gate
        self._clock = clock
        self._max_body = max_body
        self._line_rate = LineRate(log, "deliveries_received")
        self.refusal_rate = LineRate(log, "deliveries_refused", logging.WARNING)
        """Anybody can send what is refused, so its lines must not fill a disk."""
        self.fault_rate = LineRate(log, "deliveries_not_stored", logging.ERROR)
        """A full disk fails every request, and the log may be on it too."""
        self._refused_bytes = self._refusals = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._budget = Budget(max_in_flight + _PER_REQUEST)  # so that one body of that size fits

    def admit(self, headers: Mapping[bytes, bytes], announced: int | None) -> Admission:
        """Admit a request before its body is read. Raises Unauthenticated, TooLarge or Overloaded."""
        self._gate.check_headers(headers)
        return Admission(self._budget, max_body=self._max_body, announced=announced)

    def accept(
        self,
        raw_headers: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        body: bytes,
        admission: Admission,
        then: Stored,
    ) -> None:
        """Pass an authentic body to the store, and call `then` at the end.

        It gets the receipt when the delivery is durable, or StoreError. A body without an envelope is put in
        quarantine; when that is durable, it gets Malformed. The admission is released when the store has finished
        with the body, even if the sender no longer waits. A thread examines long bodies one at a time: other
        deliveries do not wait for them, and only one of them needs memory for that at a time.
        """
        now = self._clock.now()
        try:
            if len(body) > _LONG_BODY:
                examine = functools.partial(self._examine, raw_headers, headers, body, now)
                examining = asyncio.get_running_loop().run_in_executor(self._thread, examine)
                examining.add_done_callback(functools.partial(self._examined, admission, then))
            else:
                self._store(self._examine(raw_headers, headers, body, now), admission, then)
        except BaseException:
            admission.release()
            raise

    def close(self) -> None:
        """Stop the thread for long bodies, and log what is not logged yet."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for rate in (self._line_rate, self.refusal_rate, self.fault_rate):
            rate.flush()

    def _examined(
        self, admission: Admission, then: Stored, examining: asyncio.Future[Delivery | Quarantined]
    ) -> None:
        try:
            self._store(examining.result(), admission, then)
        except (Exception, asyncio.CancelledError) as exc:
            admission.release()
            then(exc)

    def _examine(
        self,
        raw_headers: Sequence[tuple[bytes, bytes]],
        headers: Mapping[bytes, bytes],
        body: bytes,
        now: datetime,
    ) -> Delivery | Quarantined:
        """Return the record to store for a request. Raises Unauthenticated."""
        self._gate.check_body(headers, body)
        masked = self._gate.masked(raw_headers)
        try:
            return read_envelope(masked, body, received_at=now)
        except Malformed as refusal:
            return Quarantined(now, refusal.code, str(refusal), None, masked, body)

    def _store(self, examined: Delivery | Quarantined, admission: Admission, then: Stored) -> None:
        if isinstance(examined, Quarantined):
            written = self._log.quarantine(examined)
            written.add_done_callback(functools.partial(self._settle_refused, examined, admission, then))
            return
        if self._traces is not None:
            examined, then = self._traces.follow(examined, then)
        self._log.append(examined, functools.partial(self._settle, examined, admission, then))

    def _settle(
        self, delivery: Delivery, admission: Admission, then: Stored, receipt: Receipt | BaseException
    ) -> None:
        admission.release()
        try:
            if isinstance(receipt, BaseException):
                self._note_failed(len(delivery.body))
            else:
                self._note_written(len(delivery.body))
                _report(delivery, receipt.outcome, self._line_rate)
        finally:
            then(receipt)

    def _settle_refused(
        self, request: Quarantined, admission: Admission, then: Stored, written: asyncio.Future[None]
    ) -> None:
        admission.release()
        error = asyncio.CancelledError() if written.cancelled() else written.exception()
        if error is None:
            self.quarantined += 1
            self._note_written(len(request.body))
        else:
            self._note_failed(len(request.body))
        then(error or Malformed(request.detail))

    def emit_refused(self, status: int, reason: str, detail: str) -> None:
        """Notify subscribers of a request that is answered with this status and not acknowledged."""
        if delivery_refused.receivers:
            delivery_refused.emit(
                DeliveryRefused(at=self._clock.now(), status=status, reason=reason, detail=detail)
            )

    @property
    def received_bytes(self) -> int:
        """Bytes of bodies that arrived since the start, including bodies that are not complete."""
        return self._budget.received

    @property
    def bytes_in_flight(self) -> int:
        """Bytes that requests hold now."""
        return self._budget.taken

    async def probe(self) -> None:
        """Return when a write to the store has succeeded; raises StoreError.

        After the store refused a delivery, a write of that size has to succeed, by a probe or by another delivery.
        """
        size, refusals = self._refused_bytes, self._refusals
        await self._log.probe(self._clock.now(), size)
        if self._refusals == refusals:
            self._refused_bytes = 0

    def _note_written(self, size: int) -> None:
        """Note for `probe` that a body of this size was written."""
        if size >= self._refused_bytes:
            self._refused_bytes = 0

    def _note_failed(self, size: int) -> None:
        """Note for `probe` that a body of this size was not written."""
        self._refused_bytes = max(self._refused_bytes, size)
        self._refusals += 1


def _report(delivery: Delivery, outcome: AppendOutcome, line_rate: LineRate) -> None:
    """Log the outcome for a delivery and notify subscribers. The endpoint reports failures."""
    if delivery_accepted.receivers or delivery_duplicated.receivers:
        _emit(delivery, outcome)
    level = logging.ERROR if outcome is AppendOutcome.CONFLICT else logging.INFO
    if not log.isEnabledFor(level):
        return
    if level == logging.INFO and not line_rate.allows(delivery.type):
        return
    log.log(
        level,
        f"delivery_{outcome}",
        extra={
            "id": delivery.key,
            "type": delivery.type,
            "job_id": delivery.job_id,
            "size": len(delivery.body),
        },
    )


def _emit(delivery: Delivery, outcome: AppendOutcome) -> None:
    if outcome is AppendOutcome.ACCEPTED:
        if delivery_accepted.receivers:
            delivery_accepted.emit(
                DeliveryAccepted(
                    id=delivery.key,
                    type=delivery.type,
                    job_id=delivery.job_id,
                    size=len(delivery.body),
                    received_at=delivery.received_at,
                )
            )
    elif delivery_duplicated.receivers:
        delivery_duplicated.emit(
            DeliveryDuplicated(
                id=delivery.key,
                type=delivery.type,
                job_id=delivery.job_id,
                size=len(delivery.body),
                received_at=delivery.received_at,
                conflict=outcome is AppendOutcome.CONFLICT,
            )
        )


def _too_large(limit: int) -> NoReturn:
    raise TooLarge(f"the body is longer than {limit} bytes")
