"""What a job has found, from the findings of its pages: the data, what is missing, and how the job ends."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.core.text import first_of
from receiver.service.emulator.research.merging import MergedData, merged
from receiver.service.emulator.research.records import ResearchedPage, ResearchResult
from receiver.service.emulator.wire.research import ResearchPlan

_SHOWN = 10
_MAX_WARNINGS = 5
_NOTHING_ASKED = frozenset({"title", "description"})
"""What rules return of a page that has nothing that the prompt names."""
_PARTS = re.compile(r"(?=\bjson: )")
_OF_ONE_PAGE = ("json: the page has no value", "json: without a schema")


@dataclass(frozen=True, slots=True)
class ResearchFindings:
    """The findings of a job so far."""

    plan: ResearchPlan
    """What was asked for."""
    pages: Sequence[ResearchedPage]
    """What became of its pages, the most trusted ones first."""

    @property
    def scraped(self) -> list[ResearchedPage]:
        """The pages that were scraped."""
        return [one for one in self.pages if one.error is None]

    def together(self) -> MergedData:
        """Return the data of all pages put together. Without a schema, pages that have what was asked for count."""
        pages = self.scraped
        if self.plan.schema is None:
            answers = [one for one in pages if _answers(one.data)]
            pages = answers or pages
        return merged((one.url, one.data) for one in pages)

    def is_satisfied(self) -> bool:
        """Tell whether everything that was asked for is there."""
        if self.plan.schema is None:
            return any(_answers(one.data) for one in self.scraped)
        together = self.together()
        return together.value is not None and not together.missing()

    def missing_names(self, names: Iterable[str]) -> list[str]:
        """Return those of the properties, by their names, that no page has had so far."""
        together = self.together()
        if together.value is None:
            return list(names)
        missing = {path.rpartition(".")[2].removesuffix("[]") for path in together.missing()}
        return [name for name in names if name in missing]

    def result(self, *notes: str) -> ResearchResult:
        """Return the result, with warnings about what is missing and what went wrong."""
        together = self.together()
        data = together.value
        missing = [] if data is None else together.missing()
        warnings = list(notes)
        if self.plan.without_effect:
            warnings.append(f"The emulator has no models of the service: {_listed(self.plan)} had no effect.")
        if data is None and self.scraped:
            warnings.append("The pages have no value that was asked for.")
        elif missing:
            warnings.append(f"The pages have no value for {first_of(missing, _SHOWN)}.")
        warnings += [f"{one.url}: {one.error}" for one in self.pages if one.error is not None][:_MAX_WARNINGS]
        warnings += list(_page_warnings(self.scraped))[:_MAX_WARNINGS]
        return ResearchResult(data, together.sources, " ".join(warnings) or None)


def _listed(plan: ResearchPlan) -> str:
    return ", ".join(plan.without_effect)


def _answers(data: Any) -> bool:
    """Tell whether the data of a page without schema is more than its title."""
    return data is not None and not (isinstance(data, dict) and data.keys() <= _NOTHING_ASKED)


def _page_warnings(pages: Iterable[ResearchedPage]) -> dict[str, None]:
    """Return the warnings of pages, each once, without those about what this one page lacks."""
    parts = (part.strip() for page in pages for part in _PARTS.split(page.warning or ""))
    return dict.fromkeys(part for part in parts if part and not part.startswith(_OF_ONE_PAGE))
