"""`receiver handlers`: the state of each handler, and whether it runs."""
