import pytest

from tests.service.client.calling import Caller, Service


@pytest.fixture
def service() -> Service:
    """A service without answers yet."""
    return Service()


@pytest.fixture(params=["async", "plain"])
def caller(request: pytest.FixtureRequest, service: Service) -> Caller:
    """Each of the two clients."""
    return Caller(request.param, service)
