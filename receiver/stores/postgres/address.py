"""The address of a PostgreSQL store: one of libpq, and the schema beside it."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from receiver.errors import ConfigurationError

DEFAULT_SCHEMA = "receiver"
_WRONG = "this is no address of a PostgreSQL database; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


@dataclass(frozen=True, slots=True)
class Address:
    """What a store connects to. `conninfo` may hold a password; `name` says the same without one."""

    conninfo: str
    schema: str
    name: str

    def __repr__(self) -> str:
        return f"Address({self.name})"


def parse_address(url: str) -> Address:
    """Read a postgresql:// address with `?schema=`. Raises ConfigurationError, which quotes nothing of it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError(_WRONG) from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(options).get("schema", DEFAULT_SCHEMA)
    query = urlencode([(name, value) for name, value in options if name != "schema"])
    conninfo = urlunsplit(parts._replace(query=query))
    if parts.netloc == "":  # urlunsplit drops the slashes of postgresql:///name
        conninfo = f"{parts.scheme}://{conninfo.removeprefix(parts.scheme + ':').removeprefix('//')}"
    try:
        known = conninfo_to_dict(conninfo)
    except ProgrammingError:
        raise ConfigurationError(_WRONG) from None
    host = known.get("host") or known.get("hostaddr") or "localhost"
    place = f" in schema {schema}" if schema != DEFAULT_SCHEMA else ""
    return Address(conninfo, schema, f"{known.get('dbname') or known.get('user') or ''} at {host}{place}".strip())
