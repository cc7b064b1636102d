"""The options that these tests add to pytest."""

import pytest

pytest_plugins = ["pytester"]

CONFTEST = "from tests.conftest import pytest_addoption, pytest_collection_modifyitems"
TESTS = """
import pytest

@pytest.mark.parametrize("n", range(7))
def test_cases(n):
    assert n % 3 == 0

def test_one():
    pass

@pytest.mark.parametrize("n", range(2))
def test_two_cases(n):
    assert n == 0
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_every_third_case_of_a_test_is_run(pytester: pytest.Pytester, processes: int) -> None:
    """The first of each test, and of seven also the fourth and the last; all processes agree on them."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)

    options = ("-p", "no:randomly", "-p", "no:asyncio", f"-n{processes}")
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=5, failed=5)
    pytester.runpytest_inprocess(*options, "--every=3").assert_outcomes(
        passed=5,
        deselected=0 if processes else 5,  # processes of pytest-xdist do not tell what they left out
    )
