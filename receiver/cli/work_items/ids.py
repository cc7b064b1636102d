"""The ids of work items on the command line."""

import click

WORK_ID = click.IntRange(min=0, max=2**63 - 1)
