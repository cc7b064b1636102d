"""The stores there are, chosen by their address."""

from receiver.core.ports.store import Store
from receiver.errors import ConfigurationError

__all__ = ["open_store"]


def open_store(url: str) -> Store:
    """Return the store at this address. Nothing is opened or created yet."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from receiver.stores.sqlite.store import SqliteStore  # with its driver, which parsing an event needs not

        return SqliteStore(url)
    if scheme in ("postgres", "postgresql"):
        raise ConfigurationError(
            "this version keeps deliveries in SQLite only: set RECEIVER_STORE=sqlite:///receiver.db, "
            "on a disk that outlives the process"
        )
    raise ConfigurationError(f"no store has addresses like {scheme!r}:; write sqlite:///receiver.db")
