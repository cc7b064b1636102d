"""Tests of the README: its commands exist, its Python runs, and its table lists the settings."""

import re
from pathlib import Path

import pytest

from receiver import Router
from receiver.cli.main import receiver
from receiver.cli.scaffold import default_text, env_example
from receiver.settings import Settings

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_first_screen_has_exactly_two_commands() -> None:
    """One shows a complete run and one runs the tests. Both are before the first heading of level 2."""
    first_screen = README.read_text(encoding="utf-8").partition("\n## ")[0]

    commands = re.findall(r"^```sh\n(.*?)\n```$", first_screen, re.DOTALL | re.MULTILINE)

    assert [command.rpartition(" ")[2] for command in commands] == ["demo", "pytest"]
    assert not any("\n" in command for command in commands)


def test_the_router_of_the_readme_registers_its_handlers() -> None:
    """The block runs without changes and makes a router with two handlers."""
    names: dict[str, object] = {"__name__": "handlers"}
    exec(compile(blocks("python")[0], "README.md", "exec"), names)

    router = names["router"]
    assert isinstance(router, Router)
    assert [handler.name for handler in router] == ["handlers.index", "handlers.tell"]


@pytest.mark.parametrize("block", blocks("python"))
def test_every_python_block_is_python(block: str) -> None:
    """A block that does not compile has a mistake."""
    compile(block, "README.md", "exec")


def test_every_link_within_the_readme_has_one_target() -> None:
    """Of two headings with the same words, a link reaches the first."""
    text = re.sub(r"^```.*?^```$", "", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    targets = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]

    assert len(targets) == len(set(targets))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(targets)


def test_every_command_of_the_readme_exists() -> None:
    """Each word after `receiver` in a code span or console block is a command."""
    text = README.read_text(encoding="utf-8")
    used = set(re.findall(r"(?:`|\$ |\.venv/bin/)receiver ([a-z]+)", text))

    assert used <= set(receiver.commands) | set(receiver.list_commands(None))  # type: ignore[arg-type]


def test_the_table_lists_every_setting_with_its_description() -> None:
    """The table must change when a setting or its description changes."""
    rows = re.findall(r"^\| `([A-Z_]+)` \|(.*)\| (.*) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)

    expected = [(name.upper(), field.description) for name, field in Settings.model_fields.items()]
    assert [(name, text) for name, _, text in rows] == expected
    for (name, default, _), field in zip(rows, Settings.model_fields.values(), strict=True):
        if not field.default_factory:  # such as "three quarters of the memory"
            assert default.strip() == (f"`{default_text(field)}`" if default_text(field) else ""), name


def test_the_example_environment_names_every_setting() -> None:
    """`receiver new` writes every setting, and only the secret is not a comment."""
    lines = env_example().splitlines()

    assert {line.removeprefix("# ").partition("=")[0] for line in lines if "RECEIVER_" in line} == {
        f"RECEIVER_{name.upper()}" for name in Settings.model_fields
    }
    assert "Undefined" not in env_example()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "RECEIVER_SECRETS=the-webhook-secret-of-your-account"
    ]
