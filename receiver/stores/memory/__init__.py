"""A store in memory, with the same rules as the others: for tests, and for trying things out."""

from receiver.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
