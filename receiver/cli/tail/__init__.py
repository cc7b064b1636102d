"""`receiver tail`: events as they arrive."""
