"""Proofs that take longer than a test may: `python -m tests.proofs [NAME] [--short]`."""
