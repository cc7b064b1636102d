"""The clients that a worker lends to its handlers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx

from receiver.service.client.clients import AsyncClient, Client
from receiver.service.client.retrying import RetryPolicy

_PATIENCE = RetryPolicy(budget=timedelta(seconds=20))
"""A short budget: handlers have a time-out of their own, and their attempts are repeated later."""


@dataclass(frozen=True, slots=True)
class ServiceClients:
    """One client for async handlers and one for plain functions."""

    for_async: AsyncClient
    """For async handlers."""
    for_plain: Client
    """For plain functions."""


@asynccontextmanager
async def open_clients(base_url: str, api_key: str) -> AsyncIterator[ServiceClients]:
    """Open clients of the service at `base_url`; they are closed at the end of the block.

    Raises ConfigurationError for an unusable address or key.
    """
    certificates = httpx.create_ssl_context()
    async with AsyncClient(api_key, base_url, patience=_PATIENCE, certificates=certificates) as for_async:
        with Client(api_key, base_url, patience=_PATIENCE, certificates=certificates) as for_plain:
            yield ServiceClients(for_async, for_plain)
