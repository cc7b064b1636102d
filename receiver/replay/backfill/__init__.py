"""Brings in what a job produced and no webhook delivered, as deliveries made from the service's answers."""
