"""Tests of README and guide: commands exist with their options, code compiles, links lead somewhere."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from receiver.cli.guide import group_of
from receiver.cli.main import receiver
from receiver.cli.scaffold import env_example
from receiver.core.guide import TOPICS, topics
from receiver.core.text import anchor_of
from receiver.settings import PREFIX, Settings
from receiver.signals.metrics.work import metrics_table
from tests.texts import GUIDE, PAGES, README, ROOT, blocks, headings, languages, without_blocks

CHECKED = {"python", "console", "sh", "sql", "toml", "yaml", "json"}
"""A test reads each block of these: here, in test_readme_types, in stores/postgres, or `.ci/run`."""
SHOWN = {"text"}
"""Output and pictures."""
_ENDS = {"|", ">", "<", ";", "&", "&&", "||", ">>", "2>"}
_FILES = re.compile(r"[\w.-]+\.(?:ndjson|gz|json|toml|db|svg|html|py|md)")


def commands_of(line: str) -> Iterator[list[str]]:
    """Yield the words of each command in a line of a shell, without variables, comments and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|><;&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    skip = False
    for word in [*lexer, ";"]:
        if word in _ENDS:
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words:
                yield words
            words, skip = [], word in {">", "<", ">>"}
        elif not skip:
            words.append(word)


def console_lines() -> list[tuple[str, list[str]]]:
    """Return each command of the console blocks that begins with `receiver`, with its page."""
    lines = [
        (name, line.removeprefix("$ "))
        for name, block in blocks("console")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]
    return [(name, words) for name, line in lines for words in commands_of(line) if words[0] == "receiver"]


def found_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the words call, and the words behind its name."""
    command: click.Command = receiver
    rest = words[1:]
    while (group := group_of(command)) is not None and rest and not rest[0].startswith("-"):
        below = group.get_command(click.Context(group), rest[0])
        if below is None and not isinstance(command, click.Group):
            break  # the scenario of `receiver simulate` stands in the place of a subcommand
        assert below is not None, f"there is no command {' '.join(words)}"
        command, rest = below, rest[1:]
    return command, rest


def test_every_command_of_a_console_block_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all its options and arguments, as `--help` has them. The files that it reads are there."""
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("public").mkdir()
    for name, words in console_lines():
        for word in words:
            if _FILES.fullmatch(word):
                tmp_path.joinpath(word).touch()
        command, rest = found_command(words)
        try:
            command.make_context(words[-1], list(rest)).close()
        except click.ClickException as exc:
            pytest.fail(f"{name}: {' '.join(words)}: {exc.format_message()}")


def test_every_command_in_the_text_exists_with_its_options() -> None:
    """In a code span the arguments may be left out."""
    for name, text in PAGES.items():
        for span in re.findall(r"`(receiver [^`]+)`", without_blocks(text)):
            words = next(commands_of(span.replace("…", "")))
            command, rest = found_command(words)
            known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
            unknown = {word.partition("=")[0] for word in rest if word.startswith("--")} - known - {"--help"}
            assert unknown <= {"--version"}, (name, span)


def test_every_name_in_the_text_exists() -> None:
    """Settings, metrics, proofs, benchmarks, and files of the repository."""
    metrics = metrics_table()
    for name, text in PAGES.items():
        for setting in re.findall(rf"(?<!_){PREFIX}([A-Z_]*[A-Z])", text):
            assert setting.lower() in Settings.model_fields or setting == "VERSION", (name, setting)
        for metric in re.findall(
            r"\b(receiver_(?!app|clock|router|sender|work_items|emulator|sites)[a-z_]+)", text
        ):
            assert f"`{metric}`" in metrics, (name, metric)
        for module in re.findall(r"-m (tests\.[a-z.]+)", text):
            place = ROOT / module.replace(".", "/")
            assert place.is_dir() or place.with_suffix(".py").exists(), (name, module)
        for path in re.findall(r"`((?:examples|receiver)/[\w/.-]+)`", text):
            assert (ROOT / path).exists(), (name, path)


def test_every_block_has_a_language_that_a_test_reads() -> None:
    """Output is `text`. Nothing else may stay unread."""
    assert languages() <= CHECKED | SHOWN


@pytest.mark.parametrize(("name", "block"), blocks("python"))
def test_every_python_block_is_python(name: str, block: str) -> None:
    """A block that does not compile has a mistake. Its types are the matter of another test."""
    compile(block, name, "exec")


def test_every_file_of_data_can_be_read() -> None:
    """TOML, YAML and JSON."""
    for _, block in blocks("toml"):
        assert tomllib.loads(block)
    for _, block in blocks("yaml"):
        assert yaml.safe_load(block)
    for _, block in blocks("json"):
        assert json.loads(block)


def test_no_block_of_the_guide_is_wrapped_in_a_terminal_of_80_columns() -> None:
    """Rich leaves a blank at both sides. A wrapped command cannot be copied."""
    for name in PAGES:
        for language in CHECKED | SHOWN:
            for page, block in blocks(language, name):
                assert page == README.name or max(map(len, block.splitlines())) <= 78, (page, block)


def test_every_link_has_one_target() -> None:
    """A file, or a heading of a page. Of two headings with the same words, a link reaches the first."""
    targets = {name: [anchor_of(one) for one in headings(text)] for name, text in PAGES.items()}
    for name, text in PAGES.items():
        assert len(targets[name]) == len(set(targets[name])), name
        for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", without_blocks(text)):
            path, _, anchor = "".join(target).partition("#")
            if not path.startswith("https://"):
                file = (GUIDE if name != README.name else ROOT) / path if path else Path(name)
                assert not path or file.exists(), (name, target)
                assert not anchor or anchor in targets[file.name], (name, target)


def test_every_page_of_the_guide_is_a_topic() -> None:
    """With a title, and a summary of one sentence that fits into the list of topics at 80 columns."""
    assert {f"{name}.md" for name in TOPICS} == {path.name for path in GUIDE.iterdir()}
    room = 80 - max(map(len, TOPICS)) - 2
    for topic in topics():
        assert topic.title
        assert topic.summary.endswith("."), topic.name
        assert len(topic.summary) <= room, topic.name
        assert PAGES[f"{topic.name}.md"].split("\n")[:4] == [f"# {topic.title}", "", topic.summary, ""]


def test_the_readme_lists_every_topic_in_order() -> None:
    """By its title. The first links of the README are this list."""
    listed = re.findall(r"\[([^]]+)\]\(receiver/guide/(\w+)\.md\)", PAGES[README.name])[: len(TOPICS)]

    assert listed == [(one.title, one.name) for one in topics()]


def test_no_sentence_stands_twice() -> None:
    """Neither in the guide nor in it and the README, except in the promises."""
    seen: dict[str, str] = {}
    for name, text in PAGES.items():
        for sentence in re.split(r"(?<=[.:])\s", re.sub(r"\s+", " ", without_blocks(text))):
            if len(sentence) > 50 and not sentence.startswith("|"):
                assert seen.setdefault(sentence, name) == name, sentence


def test_the_example_environment_names_every_setting() -> None:
    """`receiver new` writes every setting, and only the secret is not a comment."""
    lines = env_example().splitlines()

    assert {line.removeprefix("# ").partition("=")[0] for line in lines if PREFIX in line} == {
        f"{PREFIX}{name.upper()}" for name in Settings.model_fields
    }
    assert "Undefined" not in env_example()
    assert [line for line in lines if line and not line.startswith("#")] == [
        f"{PREFIX}SECRETS=the-webhook-secret-of-your-account"
    ]
