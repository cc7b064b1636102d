"""Prometheus metrics: they count the signals, and are imported only when they are switched on."""
