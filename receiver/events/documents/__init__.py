"""Models of the service's results: documents, compared pages, checks, extractions.

Events and the service's answers share them. `shape` says how they read values of an unexpected form.
"""

from receiver.events.documents.diffs import Diff, DiffChunk, DiffFile, DiffLine, DiffTree
from receiver.events.documents.monitors import (
    CheckedPage,
    CheckSummary,
    Judgment,
    MeaningfulChange,
    MonitorCheck,
    MonitorDiff,
    Snapshot,
    ValueChange,
)
from receiver.events.documents.pages import (
    ActionResults,
    ActionScrape,
    ChangeTracking,
    Document,
    DocumentMetadata,
    JavascriptReturn,
    LegacyDocument,
)
from receiver.events.documents.results import AgentResult, AgentStep, ExtractResult
from receiver.events.documents.shape import ServiceModel

__all__ = [
    "ActionResults",
    "ActionScrape",
    "AgentResult",
    "AgentStep",
    "ChangeTracking",
    "CheckSummary",
    "CheckedPage",
    "Diff",
    "DiffChunk",
    "DiffFile",
    "DiffLine",
    "DiffTree",
    "Document",
    "DocumentMetadata",
    "ExtractResult",
    "JavascriptReturn",
    "Judgment",
    "LegacyDocument",
    "MeaningfulChange",
    "MonitorCheck",
    "MonitorDiff",
    "ServiceModel",
    "Snapshot",
    "ValueChange",
]
