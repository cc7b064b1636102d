"""`receiver monitors`: the monitors of an account."""
