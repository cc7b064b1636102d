"""The sources of settings: the environment, a `.env` file and the platform; and their unknown names."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from typing_extensions import override

from receiver.core.addresses import is_postgres
from receiver.core.text import did_you_mean
from receiver.errors import ConfigurationError

PREFIX = "RECEIVER_"

_LINK = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
"""Value of a variable that Kubernetes sets for a Service: https://kubernetes.io/docs/concepts/services-networking/"""
_OPEN_QUOTE = re.compile(r"\s*(export\s+)?[^\s=#]+[ \t]*=[ \t]*['\"]")
_NAMES_OF_OTHERS = re.compile(
    r"(\w+_)?SERVICE_(HOST|PORT(_\w+)?)"  # Kubernetes, for a Service named receiver or receiver-something
    r"|(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
    r"|VERSION|REVISION|COMMIT|SHA256|BUILD_DATE"  # images often describe themselves with these
)

_OF_PLATFORMS = {"port": "PORT", "store": "DATABASE_URL"}
"""Variables without our prefix that hosting platforms set, by our name for the setting."""


class _ValuesAtOnce(PydanticBaseSettingsSource):
    """A source whose `__call__` returns all values by the names of the settings."""

    @override
    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False


class PlatformSource(_ValuesAtOnce):
    """Variables without our prefix that hosting platforms set."""

    @override
    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if port := os.environ.get("PORT"):
            found["port"] = port
        database = os.environ.get("DATABASE_URL", "")
        if "://" in database and is_postgres(database):
            found["store"] = database
        return found


class WithoutLinks(_ValuesAtOnce):
    """The environment, without the addresses that Kubernetes puts into the variables of our ports."""

    def __init__(self, settings_cls: type[BaseSettings], environment: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self._environment = environment

    @override
    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in self._environment().items() if not _is_link(name, value)}


def export_env_file(env_file: Path = Path(".env")) -> None:
    """Export the other variables of a `.env` file to the environment, for handlers, unless they are set there."""
    for name, value in _read_env_file(env_file).items():
        if value is not None and not name.upper().startswith(PREFIX):
            os.environ.setdefault(name, value)


def refuse_unknown_names(
    values: Mapping[str, Any], known: Sequence[str], env_file: Path | None, environment: Mapping[str, str]
) -> None:
    """Raise ConfigurationError for an unknown name in the arguments, the environment or the `.env` file.

    `known` are the names of all settings. The error names every unknown one: ignoring one could leave a deployment
    without its secrets.
    """
    unknown: list[str] = []
    for name in values:
        if not name.startswith("_"):  # pydantic's own arguments, such as _env_file
            unknown += _unknown(name, prefix="", origin="the arguments", known=known)
    variables = [name.upper() for name in known]
    for name, value in environment.items():
        own = name.upper().removeprefix(PREFIX)
        if name.upper().startswith(PREFIX) and not _NAMES_OF_OTHERS.fullmatch(own) and not _is_link(own, value):
            unknown += _unknown(name, prefix=PREFIX, origin="the environment", known=variables)
    for name in _read_env_file(env_file) if env_file is not None else ():
        if name.upper().startswith(PREFIX):
            unknown += _unknown(name, prefix=PREFIX, origin=str(env_file), known=variables)
    if unknown:
        raise ConfigurationError("; ".join(unknown).replace("?; ", "? "))


def _unknown(name: str, *, prefix: str, origin: str, known: Sequence[str]) -> list[str]:
    """Return the error for a name, if it is unknown."""
    own = name.upper().removeprefix(prefix) if prefix else name
    if own in known:
        return []
    close = difflib.get_close_matches(own, known, n=1)
    return [f"unknown setting {name} in {origin}{did_you_mean([f'{prefix}{one}' for one in close])}"]


def variable_of(name: str, values: Mapping[str, Any], env_file: Path | None) -> str:
    """Return the variable that gave a setting its value: the platform's, if nothing else sets it."""
    variable = PREFIX + name.upper()
    if name not in _OF_PLATFORMS or name in values:
        return variable
    ours = {given.upper() for given, value in os.environ.items() if not _is_link(given, value)}
    if env_file is not None:
        ours |= {given.upper() for given in _read_env_file(env_file)}
    return variable if variable in ours else _OF_PLATFORMS[name]


def _is_link(name: str, value: object) -> bool:
    return name.upper().endswith("PORT") and isinstance(value, str) and bool(_LINK.match(value))


def _read_env_file(env_file: Path) -> Mapping[str, str | None]:
    if not env_file.exists():
        return {}
    try:
        text = env_file.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigurationError(f"cannot read {env_file}: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise ConfigurationError(f"{env_file} is not UTF-8 text") from None
    for binding in parse_stream(StringIO(text)):
        if binding.error or (binding.key is not None and binding.value is None):
            # The parser would skip the line, for example after an open quote, and it may contain the secrets.
            reason = "expected NAME=value"
            if _OPEN_QUOTE.match(binding.original.string):
                reason = "a quotation mark is not closed, or text follows it"
            raise ConfigurationError(f"{env_file}, line {binding.original.line}: {reason}")
    return dotenv_values(env_file)
