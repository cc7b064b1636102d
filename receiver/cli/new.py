"""`receiver new`: the files of a new deployment."""

from pathlib import Path

import click

from receiver.cli.common.output import quoted
from receiver.cli.scaffold import write_deployment


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--postgres", is_flag=True, help="For PostgreSQL: several web and worker processes, on any machines.")
def new(folder: Path, postgres: bool) -> None:
    """Write a new deployment into FOLDER.

    It has handlers for you to edit, with a test, and every setting in .env.example. Dockerfile and compose.yaml,
    receiver.service (systemd) and Procfile are three ways to run it; Caddyfile and nginx.conf put TLS before it.
    The command overwrites nothing.
    """
    for path in write_deployment(folder, postgres=postgres):
        click.echo(f"wrote {path}")
    needed = "webhook secret and database" if postgres else "webhook secret"
    enter = "" if folder.resolve() == Path.cwd() else f"  cd {quoted(str(folder))}\n"
    click.echo(
        f"\nNext:\n{enter}"
        f"  cp .env.example .env              # then put your {needed} there\n"
        "  receiver check\n"
        "  receiver dev                      # receiver serve, on a server\n"
        "  receiver send crawl --pages 5     # in another terminal\n\n"
        "A Docker image and systemd install requirements.txt; it says what to do if no package index\n"
        "has this version."
    )
