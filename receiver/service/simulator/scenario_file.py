"""Scenarios from TOML files and flags. Errors name the key, the value, and what is allowed."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any, BinaryIO

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from receiver.core.text import did_you_mean, plain_reason, resembling, shortened
from receiver.errors import ConfigurationError
from receiver.service.samples import family_names
from receiver.service.schedule import RETRIES
from receiver.service.simulator.scenario import Scenario

MAX_SHOWN_LENGTH = 60
_KEYS = {
    "": "seed, arrivals, endpoint, outage, sender, faults",
    "arrivals": "at, rate, duration, poisson, jobs",
    "jobs": "at, family, pages, pace",
    "endpoint": "latency, error_rate, capacity",
    "latency": "p50, p99",
    "outage": "from, to, kind, status",
    "sender": "timeout, pauses",
    "faults": "duplicates, reordered, forged, truncated, slow",
}
_ALLOWED = {
    "model_type": "it has to be a table",
    "tuple_type": "it has to be a list; of tables each one stands under [[ ]]",
    "int_type": "it has to be a whole number",
    "float_type": "it has to be a number",
    "bool_type": "it has to be true or false",
    "string_type": "it has to be a text",
    "finite_number": "it has to be a number",
    "too_long": f"there are {len(RETRIES)} retries, so {len(RETRIES)} pauses",
}
_MISSING = {
    "family": f"name one of {', '.join(family_names())}",
    "pages": "give a whole number, such as 10",
    "from": "give a time from the start, such as 5m",
    "to": "give a time from the start, such as 10m",
    "p50": "give a duration, such as 20ms",
    "p99": "give a duration, such as 200ms",
}
"""What to write, by key."""

Raw = dict[str, Any]


def read_toml(file: BinaryIO) -> Raw:
    """Return the values of a TOML file. Raises ConfigurationError for any other file."""
    try:
        return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{file.name}: this is not valid TOML: {exc}") from None


def with_values(raw: Raw, values: Mapping[str, object]) -> Raw:
    """Return a copy with values replaced or added. Their keys are paths, such as `arrivals.rate`."""
    merged = dict(raw)
    for path, value in values.items():
        table, _, key = path.rpartition(".")
        if not table:
            merged[key] = value
        elif isinstance(inner := merged.get(table, {}), Mapping):
            merged[table] = {**inner, key: value}
    return merged


def scenario_of(raw: Raw, *, file: str = "the scenario", flags: Mapping[str, str] | None = None) -> Scenario:
    """Return the scenario. Without arrivals it has one delivery a second for 1 h.

    Raises ConfigurationError with all errors. `flags` has the paths of values that came from a flag; errors then
    name the flag, not the file.
    """
    arrivals = raw.get("arrivals", {})
    if isinstance(arrivals, dict) and not arrivals.keys() & {"at", "rate", "jobs"}:
        raw = raw | {"arrivals": arrivals | {"rate": 1.0}}
    try:
        return Scenario.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as exc:
        wrong = [_in_words(error, file, flags or {}) for error in exc.errors(include_url=False)]
        raise ConfigurationError("\n".join(dict.fromkeys(wrong))) from None


def _in_words(error: ErrorDetails, file: str, flags: Mapping[str, str]) -> str:
    location, value = list(error["loc"]), error["input"]
    if error["type"] == "together":
        location.append(error["ctx"]["key"])
        value = value.get(location[-1]) if isinstance(value, Mapping) else value
    path = _path(location)
    where = next((flag for key, flag in flags.items() if path.startswith(key)), file)
    if error["type"] == "extra_forbidden":
        tables = [str(part) for part in location[:-1] if isinstance(part, str)]
        keys = _KEYS[tables[-1] if tables else ""]
        hint = did_you_mean(resembling(str(location[-1]), keys.split(", ")))
        return f"{where}: there is no key {_printable(path)}{hint or ';'} there are {keys}"
    if error["type"] == "missing" and isinstance(location[-1], int):
        return f"{where}: {_path(location[:-1])} has too few values: {_ALLOWED['too_long']}"
    if error["type"] == "missing":
        return f"{where}: {path} is missing: {_MISSING.get(str(location[-1]), 'give it a value')}"
    allowed = _ALLOWED.get(error["type"]) or plain_reason(error)
    return f"{where}: {path} is {_printable(value)}: {allowed}"


def _path(location: list[int | str]) -> str:
    """Return the place of a value, such as `outage[0].to`; entries are counted from 0."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _printable(value: object) -> str:
    """Return a value as printable text on one line, shortened."""
    return shortened(json.dumps(value, default=str), MAX_SHOWN_LENGTH)
