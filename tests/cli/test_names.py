"""What a listing suggests for a name that matches nothing, and what a shell completes."""

import pytest

from receiver.cli.main import receiver, run
from tests.cli.kept import DONE, made

pytestmark = pytest.mark.usefixtures("configured")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("events", "list", "--type", "crawl.pages"), "no event matched; did you mean crawl.page?"),
        (("events", "list", "--type", "batch.*"), "no event matched; did you mean batch_scrape.*?"),
        (("events", "list", "--handler", "save"), "no event matched; did you mean handlers.pages.save?"),
        (("work-items", "list", "--handler", "handlers.page.save"), "did you mean handlers.pages.save?"),
        (("jobs", "list", "--type", "crwal"), "no job matched; did you mean crawl?"),
        (("events", "list", "--type", "agent.*"), "no event matched\n"),
        (("events", "list", "--type", "qqqqqq"), "no event matched\n"),
    ],
)
def test_a_name_that_matches_nothing_is_compared_with_those_that_are_known(
    args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known name without events gets no suggestion."""
    made(DONE)
    capsys.readouterr()

    assert run(receiver.main, args) == 0
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("events list --type crawl.p", ["crawl.page"]),
        ("work-items list --handler h", ["handlers.pages.save"]),
        ("handlers pause h", ["handlers.pages.save"]),
        ("replay --handler h", ["handlers.pages.save"]),
        ("events list --columns id,s", ["id,state", "id,size", "id,subject"]),
        ("jobs list --columns st", ["state", "started"]),
        ("send crawl.page.4", ["crawl.page.404"]),
        ("work-items list --handler x", []),
    ],
)
def test_a_shell_completes_types_and_handlers(
    line: str, names: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Handlers are those that the store knows."""
    made(DONE)
    monkeypatch.setenv("_RECEIVER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"receiver {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(line.split())))
    capsys.readouterr()

    with pytest.raises(SystemExit):
        run(receiver.main, (), prog_name="receiver")
    assert capsys.readouterr().out.split() == [f"plain,{name}" for name in names]


def test_without_a_store_nothing_is_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No error appears in the prompt."""
    monkeypatch.setenv("RECEIVER_STORE", "sqlite:///nowhere.db")
    monkeypatch.setenv("_RECEIVER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "receiver handlers pause h")
    monkeypatch.setenv("COMP_CWORD", "3")

    with pytest.raises(SystemExit):
        run(receiver.main, (), prog_name="receiver")
    assert capsys.readouterr() == ("\n", "")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("evnts",), "No such command 'evnts'; did you mean events?"),
        (("work-items", "shwo", "1"), "No such command 'shwo'; did you mean show?"),
        (
            ("work", "list"),
            "argument (list); this command runs handlers, and work items have `receiver work-items`",
        ),
        (("qqqq",), "No such command 'qqqq'."),
        (("work-items", "show", "abc"), "'abc' is not the number of a work item: `receiver work-items list` shows"),
        (("quarantine", "show", "-1x"), "No such option"),
        (("quarantine", "show", "x\x1b"), "is not the number of a request in quarantine"),
    ],
)
def test_a_wrong_command_or_number_says_what_to_write(
    args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown command is compared with those that there are."""
    assert run(receiver.main, args) == 2

    assert words in " ".join(capsys.readouterr().err.split())
