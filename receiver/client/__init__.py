"""Clients of the service's HTTP API, one for async and one for plain code. Importing this loads httpx."""

from receiver.client.shells import AsyncClient, Client
from receiver.client.trying import Patience

__all__ = ["AsyncClient", "Client", "Patience"]
