"""Crawls and batch scrapes as parts of the emulator."""

from receiver.service.emulator.account.keys import ApiKeys
from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.sockets import JobSockets
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.parts import EmulatorBase, EmulatorParts


def job_parts(base: EmulatorBase, engine: JobEngine) -> EmulatorParts:
    """Return what an engine brings, which has been entered: operations, watchers, and what runs."""
    keys = ApiKeys(base.options.keys, open_access=base.options.open_access)
    return EmulatorParts(
        operations=[*crawl_operations(engine, base.policy), *batch_operations(engine, base.policy)],
        sockets=JobSockets(engine, keys.team_of).app(),
        queues=engine,
        reset=engine.stop_all,
    )
