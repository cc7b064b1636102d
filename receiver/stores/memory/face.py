"""What all faces of a store in memory have."""

from receiver.stores.memory.state import MemoryState


class MemoryFace:
    """A face of a store in memory, over the state that all its faces share."""

    def __init__(self) -> None:
        self.state = MemoryState()
