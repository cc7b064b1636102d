"""Fixtures for the tests of the worker."""

import pytest

from tests.worker.worker_bench import WorkerBench


@pytest.fixture
def bench() -> WorkerBench:
    """A bench without handlers and deliveries."""
    return WorkerBench()
