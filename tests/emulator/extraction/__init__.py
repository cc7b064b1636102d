"""Extraction by rules and by a model."""
