"""Stored deliveries, handled again: in this process, by the workers, or by another receiver."""
