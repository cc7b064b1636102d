"""Proofs that take longer than a test may; each runs alone as `python -m tests.proofs.NAME`."""
