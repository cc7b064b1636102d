"""The passages of a page that fit a question, and its first sentences: rules that quote and never invent."""

import re
from collections import Counter
from collections.abc import Sequence

from receiver.service.emulator.extraction.names import words_of

MAX_MARKDOWN = 1_000_000
"""Characters of a page that are searched."""
SUMMARY_LENGTH = 400
"""Characters after which no further sentence is taken."""
HIGHLIGHTS = 3
"""Passages that are quoted."""
_LINK = re.compile(r"!?\[([^\[\]\n]{0,2000})\]\([^()\n]{0,4000}\)")
_MARKS = re.compile(r"^\s{0,12}(?:#{1,6} |> |[-*+] |\d{1,9}\. )+", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|>-])")
_SENTENCE_END = re.compile(r"(?<=[.!?…。])\s+")
STOP_WORDS = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "in",
        "is",
        "it",
    }
    | {
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "their",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
    }
)


def plain_blocks(markdown: str) -> list[str]:
    """Return the paragraphs, list items and rows of a Markdown text as plain text; headings too."""
    blocks: list[str] = []
    for block in re.split(r"\n{2,}", markdown[:MAX_MARKDOWN]):
        text = _ESCAPED.sub(r"\1", _MARKS.sub("", _LINK.sub(r"\1", block)))
        if text := " ".join(text.replace("**", "").split()):
            blocks.append(text)
    return blocks


def first_sentences(markdown: str) -> str:
    """Return what a page begins with, in whole sentences; of a page without sentences, its first words."""
    taken: list[str] = []
    size = 0
    blocks = plain_blocks(markdown)
    for block in blocks:
        if not _is_prose(block):
            continue
        for sentence in _SENTENCE_END.split(block):
            if taken and size + len(sentence) > SUMMARY_LENGTH:
                return " ".join(taken)
            taken.append(sentence[: 2 * SUMMARY_LENGTH])
            size += len(sentence)
    return " ".join(taken) or " ".join(blocks)[:SUMMARY_LENGTH]


def _is_prose(block: str) -> bool:
    return not block.startswith(("|", "```", "---")) and block[-1] in ".!?…。:" and len(block.split()) > 3


def best_passages(markdown: str, question: str, most: int = HIGHLIGHTS) -> Sequence[str]:
    """Return the passages that have most of a question's words, in the order of the page; rare words count more."""
    wanted = {word for word in words_of_text(question) if word not in STOP_WORDS}
    blocks = plain_blocks(markdown)
    found = [wanted.intersection(words_of_text(block)) for block in blocks]
    counts = Counter(word for words in found for word in words)
    scores = [sum(1 / counts[word] for word in sorted(words)) for words in found]
    best = sorted(range(len(blocks)), key=lambda at: (-scores[at], at))[:most]
    floor = max(scores, default=0) / 2
    return [blocks[at] for at in sorted(best) if scores[at] > 0 and scores[at] >= floor]


def best_sentence(markdown: str, question: str) -> str | None:
    """Return the sentence of a page that fits a question best; None if none has a word of it."""
    passages = best_passages(markdown, question, 1)
    if not passages:
        return None
    sentences = _SENTENCE_END.split(passages[0])
    wanted = set(words_of_text(question)) - STOP_WORDS
    return max(sentences, key=lambda one: len(wanted.intersection(words_of_text(one))))


def words_of_text(text: str) -> list[str]:
    """Return the words of a text in lower case and in the singular."""
    return [word for part in text.split() for word in words_of(part.casefold())]
