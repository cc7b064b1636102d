"""Stored deliveries, handled once more: here and now, by the workers, or by another receiver."""
