"""`receiver sign` and `receiver verify`: the signature of exact bytes, made or checked by hand."""

from typing import IO

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.core.signing import sign as signature_of
from receiver.core.signing import verify as signature_fits
from receiver.errors import ConfigurationError
from receiver.settings import PREFIX, load_settings


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
def sign(file: IO[bytes]) -> None:
    """Print the signature header's value for the exact bytes of FILE, or of standard input.

    The first secret of RECEIVER_SECRETS is used.
    """
    secrets = _secrets()
    click.echo(signature_of(file.read(), secrets[0]))


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--signature", required=True, metavar="sha256=HEX", help="The signature header's value.")
def verify(file: IO[bytes], signature: str) -> int:
    """Tell whether a signature is that of the exact bytes of FILE (- for standard input).

    Any secret of RECEIVER_SECRETS may fit. Exit code 0 when one does, else 1.
    """
    secrets = _secrets()
    if signature_fits(file.read(), signature.strip(), secrets):
        click.echo("valid: made with a configured secret over exactly these bytes")
        return OK
    click.echo(f"not valid: {_reason(signature.strip())}")
    return FAILED


def _secrets() -> tuple[str, ...]:
    secrets = load_settings().plain_secrets()
    if not secrets:
        raise ConfigurationError(f"no secret is set: put the webhook secret of your account in {PREFIX}SECRETS")
    return secrets


def _reason(signature: str) -> str:
    digest = signature.removeprefix("sha256=")
    if digest == signature or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        return "a signature is `sha256=` and 64 lower-case hex digits"
    return "no configured secret gives it: it was made with another one, or over other bytes (a line end more?)"
