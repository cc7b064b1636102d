"""The guide: its topics, its links, and the parts of it that are made from the code."""

import pytest

from receiver.cli.command_reference import all_help
from receiver.cli.common.exit_codes import MEANINGS
from receiver.core.guide import TOPICS, TopicLink, field_texts, read_topic, topic_link
from receiver.core.text import anchor_of, table
from receiver.core.work_states import MOVES
from receiver.events import EVENT_CLASSES
from receiver.routing import HandlerOptions
from receiver.settings import Settings
from receiver.settings.reference import default_text
from receiver.signals import WorkDead, contracts


@pytest.mark.parametrize("name", TOPICS)
def test_every_part_that_is_made_from_the_code_is_made(name: str) -> None:
    """No mark of such a part is left."""
    assert "<!--" not in read_topic(name)


def test_the_reference_has_every_setting_with_its_default_and_meaning() -> None:
    """A default that depends on the machine is told in words."""
    text = read_topic("reference")

    for name, field in Settings.model_fields.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name.upper()}` |"))
        _, _, default, meaning, _ = row.replace("\\|", "").split("|")
        assert meaning.strip() == field.description
        if field.default_factory:
            assert len(default.split()) > 2, name
        else:
            assert default.strip().strip("`") == default_text(field)


def test_the_reference_has_every_signal_event_type_and_exit_code() -> None:
    """Also those that are added later."""
    text = read_topic("reference")

    signals = [name for name in contracts.__all__ if isinstance(getattr(contracts, name), contracts.Signal)]
    for name in (*signals, *EVENT_CLASSES, *map(str, MEANINGS)):
        assert f"\n| `{name}` |" in text
    for field, meaning in field_texts(WorkDead).items():
        assert f"| `{field}` | {meaning} |" in text


def test_handlers_and_retries_have_their_tables() -> None:
    """Each option of a handler, and each change of a work item's state."""
    options, states = read_topic("handlers"), read_topic("retries")

    for option in HandlerOptions.__annotations__:
        assert f"\n| `{option}=` | " in options
    for (before, cause), after in MOVES.items():
        assert f"| {before or ''} | {cause} | {after} |" in states


def test_the_commands_have_their_help() -> None:
    """Those of groups too, in lines that fit into a block of a terminal with 80 columns."""
    text = all_help()

    for command in ("serve", "work-items retry", "simulate survive", "guide"):
        assert f"\n## receiver {command}\n\n```text\nUsage: receiver {command} [" in f"\n{text}"
    assert max(map(len, text.splitlines())) <= 78


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("retries.md", TopicLink("retries", "")),
        ("order.md#in-order", TopicLink("order", "in-order")),
        ("CHANGELOG.md", None),
        ("nothing.md", None),
        ("../start.md", None),
        ("https://example.com/start.md", None),
    ],
)
def test_a_link_to_a_topic_is_told_from_others(target: str, expected: TopicLink | None) -> None:
    """Only names of topics count."""
    assert topic_link(target) == expected


def test_a_table_keeps_its_columns() -> None:
    """A bar in a text is written with a backslash."""
    assert table(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |"


def test_headings_have_the_names_that_github_gives_them() -> None:
    """Punctuation is left out, and blanks become hyphens."""
    assert anchor_of("What does an outage cost?") == "what-does-an-outage-cost"
    assert anchor_of("Export, import and prune") == "export-import-and-prune"
    assert anchor_of("`receiver serve`") == "receiver-serve"
