"""The names that users rely on, and that each of them is explained."""

import ast
import importlib
import inspect
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

import receiver
import receiver.events
import receiver.events.documents
import receiver.requests
import receiver.service.client
import receiver.service.responses
import receiver.signals
import receiver.testing
from receiver.cli.main import receiver as command
from receiver.events import EVENT_CLASSES

PACKAGE = Path(receiver.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "scaffold/" not in str(path.relative_to(PACKAGE)))
PUBLIC_MODULES = [
    receiver,
    receiver.events,
    receiver.events.documents,
    receiver.requests,
    receiver.service.client,
    receiver.service.responses,
    receiver.signals,
    receiver.testing,
]

# The public names of 21 November 2026, before the modules moved. None of them may go away.
EARLIER = {
    "receiver": "AsyncClient BadRequest BatchContext Client ConfigurationError Conflict Context DeliveryInfo Event "
    "Forbidden GiveUp HandlerError HandlerOptions KeyRefused Malformed NoApiKey NotFound NotSuccessful Once "
    "PaymentRequired RateLimited Receiver ReceiverError Retry Router ScrapeTimedOut ServerError ServiceError "
    "ServiceUnreachable Settings StoreError UnexpectedAnswer Unprocessable load_settings parse_event sign verify",
    "receiver.events": "EVENT_CLASSES AgentAction AgentCancelled AgentCompleted AgentEnded AgentEvent AgentFailed "
    "AgentStarted BatchScrapeCompleted BatchScrapeEvent BatchScrapeFailed BatchScrapePage BatchScrapeStarted "
    "CrawlCancelled CrawlCompleted CrawlEvent CrawlFailed CrawlPage CrawlStarted Event ExtractCompleted "
    "ExtractEvent ExtractFailed ExtractStarted MonitorCheckCompleted MonitorEvent MonitorPage PageEvent "
    "TerminalEvent UnknownEvent parse_event",
    "receiver.requests": "EVENT_KINDS Action AgentRequest AuditMetadata BatchScrapeRequest ChangeTrackingOptions "
    "ClickAction CrawlRequest CrawlTarget CreditEstimate EmailNotification ExecuteJavascriptAction ExtractRequest "
    "JsonOptions Location MonitorChanges MonitorRequest Notification Operation PdfAction PressAction Profile "
    "Request Schedule ScrapeAction ScrapeOptions ScrapeRequest ScrapeTarget ScreenshotAction ScrollAction "
    "SearchTarget Target ThreatProtection WaitAction WebhookConfig WriteAction estimate_credits to_event_type "
    "to_filter_value",
    "receiver.signals": "AttemptFailed AttemptStarted AttemptSucceeded DeliveryAccepted DeliveryDuplicated "
    "DeliveryRefused JobAsked Signal WorkDead WorkDone attempt_failed attempt_started attempt_succeeded "
    "delivery_accepted delivery_duplicated delivery_refused flush job_asked work_dead work_done",
    "receiver.testing": "Call HandlerRun Recorded RunningReceiver Sample ScheduledSender Sent SentAttempt "
    "SteppedClock Work assert_dead assert_handled deliver deliver_async job_story open_receiver open_sender "
    "record_calls sample settings_for_test",
}

# What `receiver.answers` had, which has no module of its own any more.
ANSWERS = (
    "ActiveCrawl AgentStatus EmailSettings EmailSubscription ExtractStatus JobError JobErrors JobStarted JobStatus "
    "Monitor MonitorSchedule MonitorTarget NotificationSettings QueueStatus ScrapeResponse SlackSettings "
    "TargetOptions WebhookSettings"
)


@pytest.mark.parametrize("module", EARLIER)
def test_every_earlier_name_can_be_imported(module: str) -> None:
    """From the module that it was in."""
    found = importlib.import_module(module)

    assert [name for name in EARLIER[module].split() if not hasattr(found, name)] == []
    assert set(EARLIER[module].split()) <= set(found.__all__)


def test_the_answers_of_the_service_can_be_imported_from_the_root() -> None:
    """Their module moved, so the root has the names, and those of newer answers."""
    assert set(ANSWERS.split()) <= set(receiver.service.responses.__all__) <= set(receiver.__all__)


def test_type_checkers_see_the_names_of_the_table() -> None:
    """The imports for type checkers name the same things from the same modules."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("receiver.")
        for alias in node.names
    }

    assert imported == receiver._MODULES


def test_every_name_of_the_root_is_loaded_when_it_is_asked_for() -> None:
    """It is the same object each time, and `dir` shows it before."""
    for name in receiver.__all__:
        assert name in dir(receiver)
        assert getattr(receiver, name) is getattr(receiver, name)
    assert not hasattr(receiver, "unknown")


def test_the_version_is_that_of_the_installed_package() -> None:
    """In Python, and with either flag of the command."""
    installed = version("crawl-receiver")

    assert receiver.__version__ == installed
    for flag in ("-V", "--version"):
        assert CliRunner().invoke(command, [flag]).stdout == f"receiver, version {installed}\n"


def test_every_list_of_public_names_is_sorted_and_true() -> None:
    """No name stands there twice, and each can be imported."""
    for module in PUBLIC_MODULES:
        assert sorted(set(module.__all__)) == sorted(module.__all__), module.__name__
        assert [name for name in module.__all__ if not hasattr(module, name)] == [], module.__name__


def test_every_public_name_is_explained() -> None:
    """Classes, functions, and their public methods, these perhaps by the method that they override."""
    missing = []
    for module in PUBLIC_MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            members = {name: thing} | {
                f"{name}.{attribute}": value
                for attribute, value in vars(thing).items()
                if inspect.isfunction(value) and not attribute.startswith("_")
            }
            missing += [
                f"{module.__name__}.{member}"
                for member, value in members.items()
                if not (value.__doc__ if inspect.isclass(value) else inspect.getdoc(value))
            ]

    assert missing == []


def test_every_event_class_can_be_imported_from_events() -> None:
    """Under its own name."""
    for event_class in EVENT_CLASSES.values():
        assert getattr(receiver.events, event_class.__name__) is event_class


def test_the_package_says_that_it_is_typed() -> None:
    """PEP 561."""
    assert (PACKAGE / "py.typed").exists()


def test_modules_import_from_where_things_are_defined() -> None:
    """Nothing inside the package imports its root, which only re-exports."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.ImportFrom) or node.module != "receiver", path


def test_every_module_imports() -> None:
    """Also the ones that only a command loads."""
    for path in FILES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
