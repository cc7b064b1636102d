"""The words of the deliveries of a store in memory."""

from receiver.core.deliveries import DeliveryFilter
from receiver.core.search import SearchReach, Texts, parse_query, texts_of
from receiver.errors import NoSearchIndex
from receiver.stores.memory.deliveries import MemoryDeliveries


class MemorySearch(MemoryDeliveries):
    """A SearchIndex over a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._words: dict[int, Texts] | None = None
        self._indexed = 0

    async def make(self) -> None:
        """Make the index if there is none."""
        self._words = self._words or {}

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, and return how many there were."""
        taken = 0
        for one in self._deliveries:
            if one.seq <= self._indexed or one.seq in self._pruned:
                continue
            if taken == limit or max_bytes <= 0:
                break
            if self._words is not None:
                self._words[one.seq] = texts_of(one.delivery.body)
            self._indexed = one.seq
            taken += 1
            max_bytes -= len(one.delivery.body)
        return taken

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index reaches, None without one."""
        if self._words is None:
            return None
        through = [one.delivery.received_at for one in self._deliveries if one.seq <= self._indexed]
        return SearchReach(
            sum(one.seq > self._indexed and one.seq not in self._pruned for one in self._deliveries),
            through[-1] if through else None,
        )

    def _forget_words(self, seq: int) -> None:
        if self._words is not None:
            self._words.pop(seq, None)

    def _restore_words(self, seq: int, body: bytes) -> None:
        if self._words is not None:
            self._words[seq] = texts_of(body)

    def _check_words(self, wanted: DeliveryFilter) -> None:
        if wanted.text is None:
            return
        parse_query(wanted.text)
        if self._words is None:
            raise NoSearchIndex

    def _has_words(self, seq: int, wanted: DeliveryFilter) -> bool:
        if wanted.text is None:
            return True
        texts = (self._words or {}).get(seq, Texts())
        return all(
            any(phrase.is_in(text) for text in (texts.url, texts.title, texts.error))
            for phrase in parse_query(wanted.text)
        )
