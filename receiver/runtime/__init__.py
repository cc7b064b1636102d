"""What every program of the receiver needs and that does I/O: logs, and what the process is."""
