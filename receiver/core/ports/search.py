"""What a worker needs to fill the index of words."""

from typing import Protocol


class SearchIndex(Protocol):
    """Fill the index of words.

    Pruning a body also removes its words, and importing it again restores them, each in the same transaction.
    """

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, in one short transaction, and return how many there were.

        They come in the order of arrival, at most `limit`. The bodies may exceed `max_bytes` by one body. If two
        workers index at the same time, each delivery still comes into the index once.
        """
