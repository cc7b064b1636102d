"""How fast it is, measured with real processes: `python -m tests.benchmarks.ack`, and `.dispatch` in its place.

Nothing here is timed by a test. Machines are noisy, so compare ratios within one run, never figures of two runs.
"""
