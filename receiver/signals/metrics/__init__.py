"""Prometheus metrics: they count the signals, and are imported only when they are switched on."""

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder in which the processes of one program keep their counters. prometheus_client reads it:
https://prometheus.github.io/client_python/multiprocess/"""
