"""The address of a PostgreSQL store: one of libpq, and the schema beside it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from receiver.errors import ConfigurationError

DEFAULT_SCHEMA = "receiver"
_WRONG = "this is no address of a PostgreSQL database; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_NAME = re.compile("[a-z_]{1,40}")


@dataclass(frozen=True, slots=True)
class Address:
    """What a store connects to. `conninfo` may hold a password; `name` says the same without one."""

    conninfo: str
    schema: str
    name: str

    def __repr__(self) -> str:
        return f"Address({self.name})"


def parse_address(url: str) -> Address:
    """Read a postgresql:// address with `?schema=`.

    Raises ConfigurationError, which quotes nothing of it but the name of an option.
    """
    place, schema, options = _parted(url)
    conninfo = f"{place}?{'&'.join(options)}" if options else place
    try:
        known = conninfo_to_dict(conninfo)
    except (ProgrammingError, UnicodeError):
        raise ConfigurationError(_why_wrong(options)) from None
    host = known.get("host") or known.get("hostaddr") or "localhost"
    beside = f" in schema {schema}" if schema != DEFAULT_SCHEMA else ""
    return Address(conninfo, schema, f"{known.get('dbname') or 'the default'} at {host}{beside}")


def _why_wrong(options: Sequence[str]) -> str:
    """Return what is wrong with an address that libpq refuses with these options."""
    if any("@" in option for option in options):  # they may be a part of a password
        return _WRONG
    for option in options:
        name, _, _ = option.partition("=")
        try:
            conninfo_to_dict(f"postgresql://?{option}")
        except (ProgrammingError, UnicodeError):
            if _NAME.fullmatch(name):
                known = "PostgreSQL's manual has all of them (34.1.2, Parameter Key Words)"
                return f"libpq takes no option {name} with this value; {known}"
    return _WRONG


def _parted(url: str) -> tuple[str, str, list[str]]:
    """Return what is in front of the options, the schema, and the options of libpq as they are written.

    Nothing is decoded: libpq takes `+` for itself and not for a space, and knows addresses that no parser of URLs
    takes, such as those of several hosts. A user and a password may have every character but `/` and `@`: libpq
    would take what follows for a host or a database, and errors quote those. The driver that an address of
    SQLAlchemy names is left out.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        raise ConfigurationError(_WRONG)
    user, at, rest = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    place, _, query = rest.partition("?")
    if "@" in place:
        raise ConfigurationError(f"{_WRONG}, with %40 for @ and %2F for / in a password")
    schema, options = DEFAULT_SCHEMA, []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name == "schema":
            schema = unquote(value)
        else:
            options.append(option)
    return f"{scheme.partition('+')[0]}://{user}{at}{place}", schema, options
