"""Tests of the README: it is short, its first screen has two commands, and its handlers can be registered."""

from receiver import Router
from tests.texts import PAGES, README, blocks


def test_the_first_screen_has_exactly_two_commands() -> None:
    """One shows a complete run and one runs the tests. Both are before the first heading of level 2."""
    first_screen = PAGES[README.name].partition("\n## ")[0]

    commands = [block.rstrip("\n") for _, block in blocks("sh", README.name) if block in first_screen]

    assert [command.rpartition(" ")[2] for command in commands] == ["demo", "pytest"]
    assert not any("\n" in command for command in commands)


def test_a_visitor_reads_it_in_three_minutes() -> None:
    """What needs more room belongs into the guide."""
    assert len(PAGES[README.name].splitlines()) <= 220


def test_the_router_of_the_readme_registers_its_handlers() -> None:
    """The block runs without changes and makes a router with two handlers."""
    names: dict[str, object] = {"__name__": "handlers"}
    exec(compile(blocks("python", README.name)[0][1], README.name, "exec"), names)

    router = names["router"]
    assert isinstance(router, Router)
    assert [handler.name for handler in router] == ["handlers.index", "handlers.tell"]
