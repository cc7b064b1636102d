"""`receiver dev`: the server with reload and the events, in one terminal, for writing handlers."""

import asyncio
import json
import logging
from urllib.parse import urlsplit
from urllib.request import urlopen

import click

from receiver.cli.common.output import note
from receiver.cli.common.settings import listening_flags, running_flags
from receiver.cli.common.tables import ListForm
from receiver.cli.serve import serve_with
from receiver.cli.tail import Follower, shown
from receiver.core.addresses import is_loopback
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.errors import StoreRefused
from receiver.settings import PREFIX, Settings
from receiver.stores import open_store

EMULATOR_URL = "http://127.0.0.1:3002"
"""The default address of `receiver emulate`."""
_EMULATOR_SECONDS = 0.5


@click.command()
@running_flags
@listening_flags
def dev(**flags: object) -> int:
    """Serve while you write handlers, with reload and events.

    It is `receiver serve --reload` and `receiver tail` in one terminal. When you save a Python file of this folder,
    the worker restarts with the new code. Ctrl-C stops the command. For a deployment use `receiver serve`.
    """
    return serve_with({**flags, "web_processes": 1}, worker=True, reload=True, beside=[_introduce, _show_events])


async def _introduce(settings: Settings, address: str) -> None:
    url = emulator_url(settings)
    note(introduction(settings, address, emulator=url if await asyncio.to_thread(emulator_answers, url) else None))


def emulator_url(settings: Settings) -> str:
    """Return where an emulator may run: BASE_URL if that is on this machine, or else its default address."""
    parts = urlsplit(settings.base_url)
    here = parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
    return settings.base_url.rstrip("/") if here else EMULATOR_URL


def introduction(settings: Settings, address: str, *, emulator: str | None) -> str:
    """Return what to do next: send an event, use the emulator that runs, let the service reach this machine."""
    default = {name: field.default for name, field in Settings.model_fields.items()}
    is_default = address + settings.path == f"http://{default['host']}:{default['port']}{default['path']}"
    lines = [
        f"deliveries  {address}{settings.path}",
        f"try it      receiver send crawl --pages 5{'' if is_default else f' --to {address}{settings.path}'}",
        "            in another terminal, with the same secret",
        "reload      save a Python file of this folder, and the worker restarts",
    ]
    if emulator:
        lines.append(f"emulator    {emulator} is running")
        if settings.base_url.rstrip("/") != emulator:
            lines.append(f"            To call it, set {PREFIX}BASE_URL={emulator}")
    if settings.public_url:
        lines.append(f"webhook     {settings.public_url.rstrip('/')}{settings.path}")
    else:
        # The commands are those of https://blog.cloudflare.com/quick-tunnels-anytime-anywhere/ and `ngrok help`.
        lines += [
            f"tunnel      cloudflared tunnel --url {address}",
            f"            or: ngrok http {urlsplit(address).port}",
            f"            Set {PREFIX}PUBLIC_URL to the https address that it prints.",
            f"            The webhook of your jobs is that address with {settings.path}",
        ]
    return "\n".join(["", *(f"  {line}" for line in lines), ""])


def emulator_answers(url: str) -> bool:
    """Return whether an emulator runs at a local address: `/_emulator/health` is a JSON object there."""
    health = f"{url}/_emulator/health"
    try:
        with urlopen(health, timeout=_EMULATOR_SECONDS) as answer:  # noqa: S310 - http on this machine
            return isinstance(json.load(answer), dict)
    except (OSError, ValueError):
        return False


async def _show_events(settings: Settings, _: str) -> None:
    """Write a line for each event as `receiver tail` does, in place of the log line about its arrival."""
    logging.getLogger("receiver.web.intake").addFilter(
        lambda record: getattr(record, "event", "") != "delivery_accepted"
    )
    follower = Follower(open_store(settings.store), SystemClock(), shown(ListForm()))
    try:
        await follower.run(DeliveryFilter(), lines=0)
    except StoreRefused as exc:
        note(f"receiver: {exc}")
