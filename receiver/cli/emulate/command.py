"""`receiver emulate`: the service itself, until a signal comes."""

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.emulate.flags import emulator_options
from receiver.runtime.logs import configure_logs, log_crashes
from receiver.service.extras import require_emulator
from receiver.signals.traces.switch import switch_on
from receiver.stores.sqlite.system_files import require_no_companion

_SUBCOMMANDS = {"journal": "receiver.cli.emulate.journal:journal"}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS, invoke_without_command=True)
@emulator_options
@click.pass_context
def emulate(context: click.Context, /, host: str, port: int, **options: Any) -> int | None:
    """Run the service itself on this machine.

    It fetches and converts real pages, runs crawls, batch scrapes and monitors, and sends signed webhooks by the
    schedule of the service. Without options it listens on 127.0.0.1, takes any API key, keeps its state in memory,
    and serves a small site of its own; it fetches no other host than given sites and loopback.

    Ctrl-C, SIGTERM or SIGHUP stops it. With --state, jobs and webhooks go on at the next start.
    """
    if context.invoked_subcommand is not None:
        return None
    configure_logs(level="INFO", as_json=False)
    log_crashes()
    return _serve(host, port, options)


def _serve(host: str, port: int, options: Mapping[str, Any]) -> int:
    require_emulator()
    if options["state"] is not None:
        require_no_companion(options["state"])
    if options["traces"]:
        switch_on()
    from receiver.cli.emulate.serving import serve_emulator
    from receiver.emulator.options import EmulatorOptions

    chosen = EmulatorOptions(
        sites=dict(options["sites"]),
        bundled_site=options["bundled_site"],
        allow_internet=options["allow_internet"],
        allow_private=options["allow_private"],
        state=options["state"],
        webhook_secret=options["webhook_secret"],
        webhooks_to_private=options["private_webhooks"],
        keys=tuple(options["keys"]),
        open_access=options["open_access"],
        credits=options["credits_"],
        plan=options["plan"],
        threat_protection=options["threat_protection"],
        risk_url=options["risk_url"],
        diff=options["diff"],
        model_url=options["model_url"],
        model_key=options["model_key"],
        model_name=options["model_name"],
        searxng_url=options["searxng_url"],
        max_concurrency=options["max_concurrency"],
        browser=options["browser"],
        chromium=options["chromium"],
        browser_sandbox=options["browser_sandbox"],
        browser_pages=options["browser_pages"],
        page_delay=options["page_delay"],
        jitter=options["jitter"],
        speed=options["speed"],
        seed=options["seed"],
    )
    return asyncio.run(serve_emulator(chosen, host, port))
