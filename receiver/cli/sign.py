"""`receiver sign` and `receiver verify`: the signature of exact bytes."""

from typing import IO

import click

from receiver.cli.common.exit_codes import FAILED, OK
from receiver.core.signing import sign as signature_of
from receiver.core.signing import verify as is_signature_of
from receiver.errors import ConfigurationError
from receiver.settings import PREFIX, load_settings


def configured_secrets() -> tuple[str, ...]:
    """Return the webhook secrets; raise ConfigurationError if there is none."""
    secrets = load_settings().plain_secrets()
    if not secrets:
        raise ConfigurationError(f"no secret is set: put the webhook secret of your account in {PREFIX}SECRETS")
    return secrets


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
def sign(file: IO[bytes]) -> None:
    """Print the signature header's value for the bytes of FILE.

    FILE is standard input if it is absent or -. The first secret of RECEIVER_SECRETS is used.
    """
    secrets = configured_secrets()
    click.echo(signature_of(file.read(), secrets[0]))


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--signature", required=True, metavar="sha256=HEX", help="The signature header's value.")
def verify(file: IO[bytes], signature: str) -> int:
    """Check a signature over the exact bytes of FILE.

    FILE may be - for standard input. The signature is valid if any secret of RECEIVER_SECRETS made it. Otherwise
    the exit code is 1.
    """
    secrets = configured_secrets()
    if is_signature_of(file.read(), signature.strip(), secrets):
        click.echo("valid: made with a configured secret over exactly these bytes")
        return OK
    click.echo(f"not valid: {_reason(signature.strip())}")
    return FAILED


def _reason(signature: str) -> str:
    digest = signature.removeprefix("sha256=")
    if digest == signature or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        return "a signature is `sha256=` and 64 lower-case hex digits"
    return "it was made with another secret, or over other bytes (an extra line end?)"
