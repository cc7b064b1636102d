"""`receiver sign`: the signature of exact bytes."""

from typing import IO

import click

from receiver.cli.common.secrets import configured_secrets
from receiver.core.signing import sign as signature_of


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
def sign(file: IO[bytes]) -> None:
    """Print the signature header's value for the bytes of FILE.

    FILE is standard input if it is absent or -. The first secret of RECEIVER_SECRETS is used.
    """
    secrets = configured_secrets()
    click.echo(signature_of(file.read(), secrets[0]))
