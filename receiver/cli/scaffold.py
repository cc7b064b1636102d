"""The files of a new deployment: handlers, a Procfile, and every setting with its default."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from receiver.errors import ConfigurationError
from receiver.settings import PLACEHOLDER, PREFIX, Settings


def write_deployment(folder: Path, *, keep: bool = False) -> list[Path]:
    """Write handlers/, Procfile, .env.example and .gitignore into a folder and return what was written.

    Files that are there are never overwritten: with `keep` they stay as they are, without it their presence is a
    ConfigurationError and nothing is written.
    """
    planned = {folder / name: content for name, content in _files()}
    present = [path for path in planned if path.exists()]
    if present and not keep:
        raise ConfigurationError(f"{present[0]} exists already, and nothing was written; choose another folder")
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
    """Return a `.env` with every setting. All but the secret are comments."""
    lines = ["# Copy this to .env. Every line is a setting at its default.", ""]
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
