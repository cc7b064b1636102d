"""The ids of requests in quarantine on the command line."""

import click

REQUEST_ID = click.IntRange(min=0, max=2**63 - 1)
