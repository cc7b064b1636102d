"""Traces for OpenTelemetry: what happens to a delivery, from the request to the end of its attempts.

`contracts` says what our other packages ask of traces, and needs no package. The other modules load OpenTelemetry,
so they are imported only where traces are on.
"""
