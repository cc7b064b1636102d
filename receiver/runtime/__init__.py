"""What every program of the receiver needs for I/O: logs, tracebacks, processes, and the event loop."""
