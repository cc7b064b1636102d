"""The index of words of a store in memory."""

from receiver.core.batching import BatchSize
from receiver.core.deliveries import DeliveryFilter
from receiver.core.search import Texts, parse_query, texts_of
from receiver.errors import NoSearchIndex
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.state import MemoryState


class MemorySearch(MemoryFace):
    """A SearchIndex."""

    async def make(self) -> None:
        """Make the index if there is none."""
        self.state.words = self.state.words or {}

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, and return how many there were."""
        state = self.state
        taken = BatchSize(limit, max_bytes)
        for seq, stored in state.deliveries.items():
            if seq <= state.indexed or seq in state.pruned:
                continue
            if taken.is_full:
                break
            if state.words is not None:
                state.words[seq] = texts_of(stored.delivery.body)
            state.indexed = seq
            taken.add(len(stored.delivery.body))
        return taken.items


def forget_words(state: MemoryState, seq: int) -> None:
    """Take a delivery out of the index."""
    if state.words is not None:
        state.words.pop(seq, None)


def restore_words(state: MemoryState, seq: int, body: bytes) -> None:
    """Take a delivery into the index again, when it gets its body back."""
    if state.words is not None:
        state.words[seq] = texts_of(body)


def check_words(state: MemoryState, wanted: DeliveryFilter) -> None:
    """Raise NoSearchIndex if a filter asks for words and there is no index, and ValueError if it is malformed."""
    if wanted.text is None:
        return
    parse_query(wanted.text)
    if state.words is None:
        raise NoSearchIndex


def has_words(state: MemoryState, seq: int, wanted: DeliveryFilter) -> bool:
    """Tell whether a delivery has the words of a filter."""
    if wanted.text is None:
        return True
    texts = (state.words or {}).get(seq, Texts())
    return all(
        any(phrase.is_in(text) for text in (texts.url, texts.title, texts.error))
        for phrase in parse_query(wanted.text)
    )
