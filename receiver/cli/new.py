"""`receiver new`: the files of a new deployment."""

from pathlib import Path

import click

from receiver.cli.scaffold import write_deployment


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def new(folder: Path) -> None:
    """Write a new deployment into FOLDER.

    It has handlers for you to edit, a Procfile, and every setting in .env.example.
    """
    for path in write_deployment(folder):
        click.echo(f"wrote {path}")
    click.echo(
        f"\nNext: cd {folder}, copy .env.example to .env and put your webhook secret there,\n"
        "run `receiver check`, then `receiver serve`, and `receiver send crawl --pages 5` from another terminal."
    )
