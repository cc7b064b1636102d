"""`receiver alerts test`: posts a message that says that it is a test."""

import asyncio
import socket

import click

from receiver.alerting import open_poster
from receiver.core.clock import SystemClock
from receiver.settings import load_reading_settings


@click.command("test")
def test() -> None:
    """Post a test message to RECEIVER_ALERT_URL, once.

    It is signed as alerts are. The exit code is 0 if the answer is 2xx, and otherwise 1.
    """
    from receiver.signals.alerts.messages import message_of, trial  # few commands need it

    clock = SystemClock()
    poster = open_poster(load_reading_settings(), clock)
    message = message_of([trial(poster.host)], machine=socket.gethostname(), now=clock.now())
    asyncio.run(poster.post(message))
    click.echo(f"{poster.host} has taken the test message {message.id}.")
