"""What the service's retries make of an outage: one pure model, run over virtual time."""
