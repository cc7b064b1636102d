"""What fills the index of words."""

from typing import Protocol


class SearchIndex(Protocol):
    """What fills the index of words.

    What is pruned leaves it in the same transaction, and a body that is brought in again comes back into it so.
    """

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, in one short transaction, and return how many there were.

        In the order of arrival, at most `limit`, and not many more bytes of bodies than `max_bytes`. What another
        worker takes in meanwhile is taken in once.
        """
