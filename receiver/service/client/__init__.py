"""Clients of the service's HTTP API, one for async and one for plain code. Importing this loads httpx."""

from receiver.service.client.clients import AsyncClient, Client
from receiver.service.client.retrying import RetryPolicy

__all__ = ["AsyncClient", "Client", "RetryPolicy"]
