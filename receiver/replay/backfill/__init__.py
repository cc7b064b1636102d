"""Backfill: imports events that no webhook delivered, made from the service's answers about a job."""
