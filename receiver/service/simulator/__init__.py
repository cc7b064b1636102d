"""The service's retries through an outage: one pure model, run in virtual time."""
