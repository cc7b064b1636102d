"""Speed, measured with real processes: `python -m tests.benchmarks` runs all, `.ack`, `.dispatch`, `.replay` one.

Nothing here is timed by a test. Machines are noisy, so compare ratios within one run, never figures of two runs.
"""
