"""`receiver check`: tests whether this deployment can work."""

import asyncio
import textwrap
from collections.abc import Callable

import click

from receiver.cli.common.exit_codes import OK, exit_code
from receiver.cli.common.filters import json_option
from receiver.cli.common.handler_code import import_router
from receiver.cli.common.output import terminal_width, write_json
from receiver.cli.common.settings import listening_flags, running_flags, web_flags
from receiver.cli.handlers import left_waiting
from receiver.core.addresses import is_postgres
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import counted
from receiver.core.units import in_words, shown_size
from receiver.core.work import StoreFacts
from receiver.errors import ConfigurationError, ReceiverError, StoreError
from receiver.service.extras import require_emulator
from receiver.settings import PREFIX, Settings, export_env_file, load_settings, short_secret_advice
from receiver.settings.alerting import alert_kinds, open_poster
from receiver.signals.traces.contracts import ADVICE
from receiver.signals.traces.switch import switch_on
from receiver.stores import open_store
from receiver.web.listening import bind

_RECENT = 100
_LEAST_PROBE = 64 * 1024
"""Also where nothing has arrived yet. Most pages are shorter, and a disk without this room is full in a moment."""


@click.command()
@running_flags
@listening_flags
@web_flags
@json_option
def check(as_json: bool, **flags: object) -> int:
    """Check the settings, the store, search and the handlers.

    The command imports the handlers but does not run them, and it does not call the service. If the store exists,
    the command tests whether a delivery of the usual size can be written. It does not create a store, and does not
    migrate one of an older version. The exit code is 0 if there is no error, 2 for an error of settings or
    handlers, and 3 for an error of the store. With --json each part is an object, and so is each note.
    """
    tell = _tell_as_json if as_json else _tell
    settings = load_settings(**flags)
    addresses = _result(tell, "settings", lambda: _check_addresses(settings))
    codes = [
        _result(tell, "security", lambda: _check_security(settings)),
        _result(tell, "metrics", lambda: _check_metrics(settings)),
        _result(tell, "traces", lambda: _check_traces(settings)),
        _result(tell, "alerts", lambda: _check_alerts(settings)),
        _result(tell, "store", lambda: asyncio.run(_check_store(settings))),
        _result(tell, "search", lambda: asyncio.run(_check_search(settings))),
        _result(tell, "handlers", lambda: _check_handlers(settings)),
        _result(tell, "service", lambda: _check_service(settings)),
        _result(tell, "emulator", _check_emulator),
        addresses,
    ]
    if codes[4] == OK and (store := _current_store(settings)):
        codes.append(_result(tell, "workers", lambda: asyncio.run(_check_workers(store))))
    for advice in (*short_secret_advice(settings), settings.webhook_advice()):
        if advice:
            tell("note", advice, OK)
    for require in (settings.require_safe_console, settings.require_own_console_port):
        try:
            require()
        except ConfigurationError as exc:
            tell("note", f"`receiver serve --console` cannot start: {exc}", OK)
    if max(codes) == OK and _current_store(settings):
        for text in asyncio.run(_left_waiting(settings)):
            tell("note", text, OK)
    if codes[4] == OK:
        for text in asyncio.run(open_store(settings.store).health_notes()):
            tell("note", text, OK)
    return max(codes)


def _tell(part: str, text: str, code: int) -> None:
    line = f"{part:<9} {text if code == OK else f'WRONG: {text}'}"
    width = terminal_width()
    click.echo(line if width is None else wrapped(line, width))


def wrapped(line: str, width: int) -> str:
    """Return a line as lines for a terminal of this width, with the text in one column. No word is broken."""
    return textwrap.fill(line, width, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False)


def _tell_as_json(part: str, text: str, code: int) -> None:
    write_json({"part": part, "ok": code == OK, "exit_code": code, "text": text})


def _result(tell: Callable[[str, str, int], None], part: str, check_part: Callable[[], str]) -> int:
    """Tell the result of one check and return its exit code."""
    try:
        tell(part, check_part(), OK)
    except ReceiverError as exc:
        code = exit_code(exc)
        tell(part, str(exc), code)
        return code
    return OK


def _check_addresses(settings: Settings) -> str:
    """Bind the addresses that `receiver serve` needs, each with a free port: it may be running."""
    bind(settings.host, 0).close()
    if settings.metrics:
        bind(settings.metrics_host, 0, host_by=f"{PREFIX}METRICS_HOST").close()
    return "read without errors"


def _check_security(settings: Settings) -> str:
    settings.require_authentication()
    if not settings.authenticated:
        return f"{PREFIX}ALLOW_UNSIGNED is set, so deliveries from anybody are accepted; set {PREFIX}SECRETS"
    given = (("secret", settings.secrets), ("token", settings.tokens))
    accepted = " and ".join([counted(len(values), noun) for noun, values in given if values])
    verb = "is" if len(settings.secrets) + len(settings.tokens) == 1 else "are"
    return f"{accepted} {verb} accepted"


def _check_metrics(settings: Settings) -> str:
    if not settings.metrics:
        return f"are off; {PREFIX}METRICS=true serves them to Prometheus"
    settings.require_safe_metrics()
    who = "requests with the token" if settings.metrics_token else "this machine only; behind a proxy set a token"
    return f"at /metrics of the endpoint, and of a worker on port {settings.metrics_port}, for {who}"


def _check_traces(settings: Settings) -> str:
    if not settings.traces:
        return f"are off; {PREFIX}TRACES=true sends them by OpenTelemetry"
    if not switch_on():
        return f"are on, but nothing is installed that takes them: {ADVICE}"
    return "are sent as the variables of OpenTelemetry (OTEL_…) say"


def _check_alerts(settings: Settings) -> str:
    if settings.alert_url is None:
        return f"are off; {PREFIX}ALERT_URL posts them to a chat"
    kinds = ", ".join(sorted(kind.value.replace("_", " ") for kind in alert_kinds(settings)))
    signed = "without signature" if settings.alert_secret is None else "signed"
    host = open_poster(settings, SystemClock()).host
    return f"are posted to {host}, {signed}, about: {kinds}; `receiver alerts test` posts one"


async def _check_store(settings: Settings) -> str:
    store = open_store(settings.store)
    if not store.exists():
        if is_postgres(settings.store):
            return f"{settings.shown_store()} has no tables of ours yet; `receiver store migrate` creates them"
        return f"{settings.shown_store()} does not exist yet; `receiver serve` creates it"
    schema = store.schema()
    if schema and schema.stored < schema.needed:
        return (
            f"{settings.shown_store()} has schema {schema.stored}, and this version needs {schema.needed}: "
            "`receiver serve` migrates it when it starts; make a backup before"
        )
    async with store.log() as log, store.reports() as reports:
        await _require_room(log, reports)
        unfinished = await reports.count_unfinished()
        state = f"{counted(unfinished, 'delivery')} not finished" if unfinished else "all deliveries are finished"
        version = f"has schema {schema.stored} and " if schema else ""
        size = size_and_lag(await reports.facts())
        return f"{settings.shown_store()} {version}can be written; {state}; {size}"


async def _require_room(log: DeliveryLog, reports: Reports) -> None:
    """Raise StoreError unless the store can take a delivery of the usual size: that of the largest recent one."""
    recent = [one.size async for one in reports.deliveries(DeliveryFilter(limit=_RECENT))]
    size = max([_LEAST_PROBE, *recent])
    try:
        await log.probe(SystemClock().now(), size)
    except StoreError as exc:
        raise StoreError(f"a delivery of {shown_size(size)} cannot be written: {exc}") from exc


def size_and_lag(facts: StoreFacts) -> str:
    """Tell how large a store is, and how far its last standby is behind if it has one."""
    lag = "" if facts.standby_lag is None else f"; its last standby is {in_words(facts.standby_lag)} behind"
    return f"its size is {shown_size(facts.bytes)}{lag}"


def _current_store(settings: Settings) -> Store | None:
    """Return the store if it is there and has the schema of this version."""
    store = open_store(settings.store)
    if not store.exists():
        return None
    schema = store.schema()
    return store if schema is None or schema.stored == schema.needed else None


async def _check_workers(store: Store) -> str:
    async with store.clock(SystemClock()) as clock, store.reports() as reports:
        workers, now = await reports.workers(), clock.now()
    alive = [one.sign for one in workers if not one.is_late(now)]
    shown = ", ".join(f"{one.machine} (process {one.pid}, version {one.version})" for one in alive)
    late = [
        f"{one.sign.name} was last seen {in_words(one.unseen(now))} ago: {one.suspicion}"
        for one in workers
        if one.is_late(now)
    ]
    first = f"{len(alive)} {'runs' if len(alive) == 1 else 'run'}: {shown}" if alive else _NO_WORKER
    return "; ".join([first, *late])


_NO_WORKER = "none runs now; `receiver serve` starts one, and so does `receiver work`"


async def _check_search(settings: Settings) -> str:
    if not settings.search:
        return f"is off; {PREFIX}SEARCH=true has a worker keep an index for `events list --text`"
    await open_store(settings.store).require_search()
    reach = None
    if store := _current_store(settings):
        async with store.reports() as reports:
            reach = await reports.search_reach()
    if reach is None:
        return "is on; a worker will build the index"
    if reach.behind:
        return f"is on; {counted(reach.behind, 'delivery')} not yet in the index"
    return "is on; the index is complete"


def _check_handlers(settings: Settings) -> str:
    export_env_file()  # as a worker does
    router = import_router(settings)
    if not len(router):
        raise ConfigurationError(f"{settings.handlers} has no handlers; register some with @router.on(...)")
    return f"{settings.handlers} has {len(router)}: {', '.join(handler.name for handler in router)}"


def _check_service(settings: Settings) -> str:
    if settings.public_url is not None:
        settings.webhook()
    if settings.api_key is None:
        return f"is not called: no {PREFIX}API_KEY is set, which `receiver start` and `ctx.client` need"
    settings.plain_api_key()
    return f"at {settings.base_url} is called with {PREFIX}API_KEY"


def _check_emulator() -> str:
    """Tell whether `receiver emulate` can work, and with a browser. A server needs neither."""
    try:
        require_emulator()
    except ConfigurationError as exc:
        return f"is not there, and only `receiver emulate` needs it: {exc}"
    from receiver.emulator.browser.chromium import find_browser
    from receiver.emulator.options import EmulatorOptions

    found = find_browser(EmulatorOptions())
    return f"can run; its browser{'' if found.executable is None else ':'} {found.text}"


async def _left_waiting(settings: Settings) -> list[str]:
    """Return advice about work that waits for handlers that are no longer in the code."""
    store = _current_store(settings)
    if store is None:
        return []
    names = {handler.name for handler in import_router(settings)}
    async with store.reports() as reports:
        waiting = await reports.waiting()
    return [left_waiting(name, waiting[name]) for name in sorted(waiting.keys() - names)]
