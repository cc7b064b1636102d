"""The files of a new deployment: handlers, a Procfile, and every setting with its default."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from receiver.errors import ConfigurationError
from receiver.settings import PLACEHOLDER, PREFIX, Settings


def write_deployment(folder: Path, *, keep: bool = False) -> list[Path]:
    """Write handlers/, Procfile, .env.example and .gitignore into a folder. Return the written paths.

    This never overwrites a file. With `keep` it skips existing files; without `keep` it raises ConfigurationError
    for them and writes nothing.
    """
    planned = {folder / name: content for name, content in _files()}
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


def _files() -> Iterator[tuple[str, bytes]]:
    root, gitignore = _source()
    for entry in sorted((root / "handlers").iterdir(), key=lambda one: one.name):
        if entry.name.endswith(".py"):
            yield f"handlers/{entry.name}", entry.read_bytes()
    yield "Procfile", (root / "Procfile").read_bytes()
    yield ".gitignore", (root / gitignore).read_bytes()
    yield ".env.example", env_example().encode()


def _source() -> tuple[Traversable, str]:
    """Return the folder of the files, in the wheel or in a checkout, and the name of the .gitignore there."""
    package = resources.files("receiver")
    if (packed := package / "scaffold").is_dir():
        return packed, "gitignore"
    return Path(str(package)).parent, ".gitignore"


def env_example() -> str:
    """Return the text of a `.env` file with every setting. Only the secret is not a comment."""
    lines = ["# Copy this file to .env. Each line shows a setting with its default value.", ""]
    for name, field in Settings.model_fields.items():
        lines.append(f"# {field.description}.")
        comment = "" if name == "secrets" else "# "
        default = field.get_default(call_default_factory=True, validated_data={})
        lines.append(f"{comment}{PREFIX}{name.upper()}={_shown(name, default)}")
    return "\n".join(lines) + "\n"


def _shown(name: str, default: object) -> str:
    if name == "secrets":
        return PLACEHOLDER
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g}"
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in (None, ()) else str(default)
