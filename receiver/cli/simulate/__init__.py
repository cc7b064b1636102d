"""`receiver simulate`: outages and the retries of the sender."""
