"""`receiver simulate maintenance`: how to split planned work so that it loses nothing."""

from datetime import timedelta
from typing import Any

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import duration, json_option
from receiver.cli.common.output import write_json, write_line
from receiver.cli.simulate.flags import ARRIVALS, ENDPOINT, OUTAGES, SENDER, TRAFFIC, scenario_options
from receiver.core.durations import in_words
from receiver.core.text import counted
from receiver.service.simulator.maintenance import Advice, Split, advise
from receiver.service.simulator.scenario import OutageKind, Scenario
from receiver.service.simulator.survival import KINDS


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
