"""`receiver simulate capacity`: how many requests at once an endpoint must work on."""

from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import write_json, write_line
from receiver.cli.simulate.flags import ARRIVALS, ENDPOINT, OUTAGES, SENDER, TRAFFIC, scenario_options
from receiver.core.durations import in_words
from receiver.core.text import counted
from receiver.service.simulator.drain import Trial, load, trials
from receiver.service.simulator.scenario import Scenario


@click.command()
@TRAFFIC
@scenario_options(*ARRIVALS, *ENDPOINT, *OUTAGES, *SENDER)
@json_option
def capacity(scenario: Scenario, as_json: bool) -> int:
    """Find the smallest capacity that recovers from an outage.

    Capacity is how many requests the endpoint works on at once; the others wait. A request that waits longer than
    the service's time-out is sent again, so that a small endpoint stays overloaded after the outage. It has
    recovered if no request waits that long in the last tenth of the traffic. Exit code 1 if no capacity recovers.
    """
    needed = load(scenario)
    tried = sorted(trials(scenario), key=lambda one: one.capacity)
    smallest = next((one for one in tried if one.drained_at is not None), None)
    for trial in tried:
        if as_json:
            write_json(_trial_fields(trial))
        else:
            write_line(f"{counted(trial.capacity, 'request'):>20} at once: {_fate(trial)}")
    if smallest is not None and not as_json:
        below = (
            f"Below {smallest.capacity:,} at once it never drains." if smallest.capacity > 1 else "One is enough."
        )
        write_line(
            f"{below} The traffic alone keeps {needed.alone:.3g} "
            f"busy, and {needed.at_most:.3g} if every attempt of every delivery is made."
        )
    return FAILED if smallest is None else OK


def _fate(trial: Trial) -> str:
    if trial.drained_at is None:
        return "never drains"
    return f"drained at {in_words(trial.drained_at)}" if trial.drained_at else "nothing waits too long"


def _trial_fields(trial: Trial) -> dict[str, Any]:
    drained_at = trial.drained_at
    return {
        "capacity": trial.capacity,
        "drains": drained_at is not None,
        "drained_at_s": None if drained_at is None else drained_at.total_seconds(),
    }
