"""The judge: whether a change matters for a monitor's goal, as the extractor finds it, by a model or by rules."""

import itertools
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from receiver.core.text import shortened
from receiver.service.emulator.extraction.extractor import Extractor
from receiver.service.emulator.extraction.source import Extraction, ExtractionSource, Wish
from receiver.service.emulator.monitors.findings import PageFinding
from receiver.service.emulator.scrapes import Json
from receiver.service.emulator.scraping.passages import STOP_WORDS, words_of_text

_MAX_CHANGE = 50_000
_MAX_CHANGES = 100
_MAX_GOAL = 10_000
_CONFIDENCE = ("high", "medium", "low")
_KINDS = ("added", "removed", "changed")
_SYSTEM = (
    "You judge whether a change of a web page matters for a goal. What you get is the change, not the page: a line "
    "that begins with - was removed, one that begins with + was added."
)
_TEXT = {"type": ["string", "number", "boolean", "null"]}
_CHANGE = {
    "type": "object",
    "properties": {
        "type": {"enum": [*_KINDS]},
        "before": _TEXT,
        "after": _TEXT,
        "reason": _TEXT,
    },
    "required": ["type"],
}
_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "meaningful": {"type": "boolean"},
        "confidence": {"enum": [*_CONFIDENCE]},
        "reason": {"type": "string"},
        "meaningfulChanges": {"type": "array", "items": _CHANGE},
    },
    "required": ["meaningful", "confidence", "reason", "meaningfulChanges"],
}
_BY_RULE = "The page changed. Without a language model, every change counts as meaningful"


class ChangeJudge:
    """Judges changes. Its answer always has the form that the service documents."""

    def __init__(self, extractor: Extractor) -> None:
        self._extractor = extractor

    async def judge(self, goal: str, finding: PageFinding) -> Json:
        """Return the judgment of a change. Without a model's answer every change matters, with low confidence."""
        values = None if finding.values is None else json.dumps(finding.values, ensure_ascii=False)
        change = "\n\n".join(one for one in (finding.text, values) if one)
        source = ExtractionSource(url=finding.url, markdown=shortened(change, _MAX_CHANGE), data=finding.values)
        wish = Wish(_SCHEMA, f"whether this change matters for the goal: {goal}", _SYSTEM)
        rules = partial(judge_by_rules, goal=goal)
        found = await self._extractor.extract(source, wish, rules=rules)
        judgment, fault = _read(found.data), found.model_fault
        if judgment is None:
            fault = fault or "; ".join(found.warnings) or "the model does not say whether the change is meaningful"
            judgment = _read(rules(source, wish).data) or {}
        if fault is not None:
            judgment["reason"] = f"The model did not judge the change: {fault}. {judgment['reason']}"
        return judgment


def judge_by_rules(source: ExtractionSource, wish: Wish, *, goal: str) -> Extraction:
    """Return that the change matters, and which parts of it have words of the goal. Rules know no more of it."""
    wanted = set(words_of_text(goal[:_MAX_GOAL])) - STOP_WORDS
    changes: list[Json] = []
    seen: set[str] = set()
    for place, before, after in _changes(source):
        words = wanted.intersection(words_of_text(f"{place} {before or ''} {after or ''}"))
        if words:
            kind = "added" if before is None else "removed" if after is None else "changed"
            told = f"It has words of the goal: {', '.join(sorted(words))}"
            changes.append({"type": kind, "before": before, "after": after, "reason": told})
            seen |= words
    named = f"; it has words of the goal: {', '.join(sorted(seen))}." if seen else "; no word of the goal is in it."
    judgment = {"meaningful": True, "confidence": "low", "reason": _BY_RULE + named, "meaningfulChanges": changes}
    return Extraction(judgment)


def _changes(source: ExtractionSource) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield where something changed, what it was before, and what it is now."""
    for path, one in list((source.data or {}).items())[:_MAX_CHANGES]:
        yield path, _text_of(one["previous"]), _text_of(one["current"])
    if source.data is not None:
        return
    told = (line for line in source.markdown.split("\n") if not line.startswith("\\"))  # no newline at the end
    lines = itertools.dropwhile(lambda line: not line.startswith("@@"), told)
    for is_changed, run in itertools.groupby(lines, key=lambda line: line.startswith(("-", "+"))):
        if is_changed:
            texts = list(run)
            removed = [line[1:] for line in texts if line.startswith("-")]
            added = [line[1:] for line in texts if line.startswith("+")]
            yield from (("", *pair) for pair in itertools.zip_longest(removed, added))


def _text_of(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(answer: Any) -> Json | None:
    """Return a judgment in the form of the service; None if it does not say whether the change matters."""
    if not isinstance(answer, dict) or not isinstance(answer.get("meaningful"), bool):
        return None
    changes = answer.get("meaningfulChanges")
    confidence = answer.get("confidence")
    return {
        "meaningful": answer["meaningful"],
        "confidence": confidence if confidence in _CONFIDENCE else "low",
        "reason": shortened(str(answer.get("reason") or "")),
        "meaningfulChanges": [
            _change(one)
            for one in (changes if isinstance(changes, list) else [])[:_MAX_CHANGES]
            if isinstance(one, dict) and one.get("type") in _KINDS
        ],
    }


def _change(one: Json) -> Json:
    texts = {key: None if one.get(key) is None else shortened(str(one[key])) for key in ("before", "after")}
    return {"type": one["type"], **texts, "reason": shortened(str(one.get("reason") or ""))}
