"""The pages of the console, a module for each subject."""

from starlette.routing import Route

from receiver.web.console.pages.dead import DeadLetterPage
from receiver.web.console.pages.deliveries import DeliveryPages
from receiver.web.console.pages.drift import DriftPage
from receiver.web.console.pages.guide import GuidePages
from receiver.web.console.pages.handlers import HandlerPages
from receiver.web.console.pages.jobs import JobListPages
from receiver.web.console.pages.monitors import MonitorPages
from receiver.web.console.pages.overview import OverviewPage
from receiver.web.console.pages.quarantine import QuarantinePages
from receiver.web.console.pages.settings import SettingsPage
from receiver.web.console.pages.sign_in import SignInPages
from receiver.web.console.pages.simulator import SimulatorPage
from receiver.web.console.pages.stream import ChangeStream
from receiver.web.console.pages.work_items import WorkItemPages
from receiver.web.console.parts import ConsoleParts

_SUBJECTS = (
    OverviewPage,
    DeliveryPages,
    DeadLetterPage,
    WorkItemPages,
    JobListPages,
    MonitorPages,
    HandlerPages,
    QuarantinePages,
    DriftPage,
    SimulatorPage,
    SettingsPage,
    GuidePages,
    ChangeStream,
    SignInPages,
)


def all_routes(parts: ConsoleParts) -> list[Route]:
    """Return the routes of all pages."""
    return [route for subject in _SUBJECTS for route in subject(parts).routes()]
