"""Prometheus metrics: built on the signals, and imported only where they are switched on."""
