"""`receiver emulate`: the service itself on this machine, and its journal."""
