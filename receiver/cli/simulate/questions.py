"""`receiver simulate capacity`: how many requests at once an endpoint must work on."""

from datetime import timedelta
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import duration, json_option
from receiver.cli.common.output import flush, write_json, write_line
from receiver.cli.simulate.flags import ARRIVALS, ENDPOINT, OUTAGES, SENDER, TRAFFIC, scenario_options
from receiver.core.text import counted
from receiver.core.units import in_words
from receiver.service.simulator.questions import (
    KINDS,
    Advice,
    Split,
    Survived,
    Trial,
    advise,
    always_survived,
    load,
    trials,
)
from receiver.service.simulator.questions import survive as survived_outages
from receiver.service.simulator.scenario import OutageKind, Scenario


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


# FOLDED: `receiver simulate maintenance`: how to split planned work so that it loses nothing.
def _length(written: str) -> timedelta:
    if not (length := duration(written)):
        raise click.BadParameter("it must be longer than 0")
    return length


@click.command()
@click.option("--length", type=_length, metavar="TIME", required=True, help="How long the work takes, such as 25m.")
@click.option(
    "--from", "start", type=duration, metavar="TIME", default="0s", show_default=True, help="When it begins."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in KINDS]),
    default=OutageKind.REFUSE.value,
    show_default=True,
    help="How the endpoint behaves during the work.",
)
@TRAFFIC
@scenario_options(*ARRIVALS, *ENDPOINT, *OUTAGES, *SENDER)
@json_option
def maintenance(scenario: Scenario, length: timedelta, start: timedelta, kind: str, as_json: bool) -> int:
    """Find how to split planned work so that it loses nothing.

    The command simulates the work in one part, and then in several: parts of equal length, with the rest before or
    after them and with the endpoint up for 1 to 30 minutes between them. It prints the split that ends first of
    those that lose no more than without the work. Exit code 1 if there is none.
    """
    advice = advise(scenario, length, start=start, kind=OutageKind(kind))
    if as_json:
        write_json(_advice_fields(advice))
    else:
        write_line(_advice_sentence(advice, length))
    return OK if advice.best else FAILED


def _advice_sentence(advice: Advice, length: timedelta) -> str:
    at_once, best = advice.at_one_go, advice.best
    loss = f"loses {at_once.lost:,} of {counted(at_once.deliveries, 'delivery')}"
    if advice.without.lost:
        loss += f" ({advice.without.lost:,} are lost without it)"
    begin = f"{in_words(length)} at one go {loss}"
    if best is None:
        return f"{begin}; each of {advice.tried:,} ways to do it loses more than without it: make it shorter."
    if len(best.parts) == 1:
        return f"{begin}: there is no need to split it."
    more = " more" if advice.without.lost else ""
    return f"{begin}; {_parts(best)} it loses no{more or 'ne'}, and is over after {in_words(best.takes)}."


def _parts(split: Split) -> str:
    parts = ", ".join(in_words(part) for part in split.parts)
    return f"in {len(split.parts)} parts of {parts} with {in_words(split.up)} up between them"


def _advice_fields(advice: Advice) -> dict[str, Any]:
    best = advice.best
    return {
        "deliveries": advice.at_one_go.deliveries,
        "lost_without": advice.without.lost,
        "lost_at_one_go": advice.at_one_go.lost,
        "best": best
        and {
            "parts_s": [part.total_seconds() for part in best.parts],
            "up_s": best.up.total_seconds(),
            "takes_s": best.takes.total_seconds(),
        },
        "tried": advice.tried,
    }


# FOLDED: `receiver simulate survive`: the longest outage that loses nothing.
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
