"""`receiver new`: a new deployment, with handlers and a test, files to run it, and every setting."""

from collections.abc import Iterator
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from receiver.cli.common.output import quoted
from receiver.errors import ConfigurationError
from receiver.settings import PLACEHOLDER, PREFIX, Settings
from receiver.settings.reference import default_text

_HIDDEN = ("dockerignore",)
"""Files whose names begin with a dot in a deployment."""
_POSTGRES_LINES = """# Docker compose makes a database with this password. Without it, write the address of one.
POSTGRES_PASSWORD=
# RECEIVER_STORE=postgresql://receiver:PASSWORD@HOST/receiver
"""


def write_deployment(folder: Path, *, keep: bool = False, postgres: bool = False) -> list[Path]:
    """Write the files of a deployment into a folder, with `postgres` for many machines. Return the written paths.

    This never overwrites a file. With `keep` it skips existing files; without `keep` it raises ConfigurationError
    for them and writes nothing. It refuses a module `handlers.py` too, which the folder `handlers/` would hide.
    """
    if (module := folder / "handlers.py").exists():
        raise ConfigurationError(
            f"{module} is there, and the new folder handlers/ would hide it from Python; nothing was written: "
            "choose another folder, or rename the file and set RECEIVER_HANDLERS"
        )
    planned = {folder / name: content for name, content in _files(postgres=postgres)}
    present = [path for path in planned if path.exists()]
    if present and not keep:
        raise ConfigurationError(f"{present[0]} already exists, and nothing was written; choose another folder")
    written = [path for path in planned if path not in present]
    try:
        for path in written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(planned[path])
    except OSError as exc:
        raise ConfigurationError(f"cannot write {exc.filename or folder}: {exc.strerror}") from exc
    return written


def _files(*, postgres: bool) -> Iterator[tuple[str, bytes]]:
    root, gitignore = _source()
    for entry in _entries(root / "handlers"):
        if entry.name.endswith(".py"):
            yield f"handlers/{entry.name}", entry.read_bytes()
    yield ".env.example", env_example(postgres=postgres).encode()
    yield "requirements.txt", requirements(postgres=postgres).encode()
    yield "Procfile", (root / "Procfile").read_bytes()
    yield ".gitignore", (root / gitignore).read_bytes()
    folder = resources.files("receiver.cli") / "deployment"
    chosen = {entry.name: entry for entry in _entries(folder)}
    if postgres:
        chosen |= {entry.name: entry for entry in _entries(folder / "postgres")}
    for name, entry in chosen.items():
        yield f".{name}" if name in _HIDDEN else name, entry.read_bytes()


def _entries(folder: Traversable) -> list[Traversable]:
    """Return the files in a folder, by name."""
    return sorted((entry for entry in folder.iterdir() if entry.is_file()), key=lambda one: one.name)


def requirements(*, postgres: bool = False) -> str:
    """Return the text of a `requirements.txt` with this version of the package."""
    extra = "[postgres]" if postgres else ""
    upgrade = (
        "back up the database, change the version, install again and run `receiver store migrate`"
        if postgres
        else "back up the store (`receiver backup FILE`), change the version and install again"
    )
    return (
        f"# To upgrade, {upgrade}.\n"
        "# If no index has the package: build a wheel from its source (`pip wheel --no-deps FOLDER`), copy it\n"
        "# beside this file, and write its name here instead: "
        f"./crawl_receiver-{version('crawl-receiver')}-py3-none-any.whl{extra}\n"
        f"crawl-receiver{extra}=={version('crawl-receiver')}\n"
    )


def _source() -> tuple[Traversable, str]:
    """Return the folder of the files, in the wheel or in a checkout, and the name of the .gitignore there."""
    package = resources.files("receiver")
    if (packed := package / "scaffold").is_dir():
        return packed, "gitignore"
    return Path(str(package)).parent, ".gitignore"


def env_example(*, postgres: bool = False) -> str:
    """Return the text of a `.env` file with every setting. Only the secrets are not comments."""
    lines = [
        "# Copy this file to .env. Each line shows a setting with its default value. An empty one means: not set.",
        "",
    ]
    if postgres:
        lines.append(_POSTGRES_LINES)
    for name, field in Settings.model_fields.items():
        if postgres and name == "store":
            continue
        follows = " The default depends on the machine." if field.default_factory else ""
        lines.append(f"# {field.description}.{follows}")
        value = PLACEHOLDER if name == "secrets" else default_text(field)
        lines.append(f"{'' if name == 'secrets' else '# '}{PREFIX}{name.upper()}={value}")
    return "\n".join(lines) + "\n"


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
