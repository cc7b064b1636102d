"""`receiver simulate survive`: the longest outage that loses nothing."""

from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import flush, write_json, write_line
from receiver.cli.simulate.flags import ARRIVALS, SENDER, TRAFFIC, scenario_options
from receiver.core.durations import in_words
from receiver.service.simulator.scenario import OutageKind, Scenario
from receiver.service.simulator.survival import KINDS, Survived, always_survived
from receiver.service.simulator.survival import survive as survived_outages

_BEHAVIOURS = {OutageKind.REFUSE: "refuses connections", OutageKind.HANG: "hangs"}


@click.command()
@TRAFFIC
@scenario_options(*ARRIVALS, *SENDER)
@json_option
def survive(scenario: Scenario, as_json: bool) -> int:
    """Find the longest outage that loses nothing.

    It depends on the time at which the outage begins. The result is simulated to the microsecond and compared
    with the theory, for an endpoint that refuses connections and for one that hangs. Outside the outage the
    endpoint answers at once. Exit code 1 if simulation and theory differ.
    """
    agree = True
    if not as_json:
        write_line(f"{'the endpoint':<20} {'when the outage begins':<34} {'simulated':>12} {'theory':>12}")
    for one in survived_outages(scenario):
        agree = agree and one.simulated == one.theory
        if as_json:
            write_json(_survived_fields(one))
        else:
            longest, theory = in_words(one.simulated), in_words(one.theory)
            write_line(f"{_BEHAVIOURS[one.kind]:<20} {_beginning(one):<34} {longest:>12} {theory:>12}")
        flush()
    if not as_json:
        for kind in KINDS:
            always = in_words(always_survived(kind, scenario.schedule))
            outage = f"that {_BEHAVIOURS[kind]} for at most {always}"
            write_line(f"An endpoint {outage} loses nothing, unless attempts failed just before.")
    return OK if agree else FAILED


def _beginning(one: Survived) -> str:
    if one.next_in is None:
        return f"just after attempt {one.failed} has failed"
    return f"{in_words(one.next_in)} before the next delivery" if one.next_in else "as a delivery is created"


def _survived_fields(one: Survived) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "next_delivery_in_s": None if one.next_in is None else one.next_in.total_seconds(),
        "failed_before": one.failed,
        "simulated_s": one.simulated.total_seconds(),
        "theory_s": one.theory.total_seconds(),
    }
