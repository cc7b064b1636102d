"""Summaries, answers and quotations without a model: they are sentences of the page."""

import pytest

from receiver.emulator.scraping.answers import best_passages, best_sentence, first_sentences, plain_blocks

PAGE = """# Bike shop

[Home](https://shop.example/) [Cart](https://shop.example/cart)

We repair bikes of every kind. Bring yours in the morning. You get it back in the evening.

## Prices

| Work | Price |
| --- | --- |
| Tyre | 9 € |

A puncture costs 9 euros. A new chain costs 30 euros.

- Open **Monday** to Friday
"""


def test_a_summary_is_the_first_sentences() -> None:
    assert first_sentences(PAGE) == (
        "We repair bikes of every kind. Bring yours in the morning. You get it back in the evening. "
        "A puncture costs 9 euros. A new chain costs 30 euros."
    )


def test_a_long_page_has_a_short_summary() -> None:
    text = "This sentence is about nothing at all, but it is a sentence. " * 100

    assert 0 < len(first_sentences(text)) <= 500


def test_a_page_without_sentences_is_summarised_by_its_words() -> None:
    assert first_sentences("# Title\n\n- one\n\n- two") == "Title one two"
    assert first_sentences("") == ""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does a chain cost?", "A new chain costs 30 euros."),
        ("How much is a puncture?", "A puncture costs 9 euros."),
        ("When do I get it back in the evening?", "You get it back in the evening."),
        ("Which day?", None),
        ("", None),
        ("What is the of a", None),
    ],
)
def test_an_answer_is_the_sentence_with_most_words_of_the_question(question: str, answer: str | None) -> None:
    assert best_sentence(PAGE, question) == answer


def test_highlights_are_passages_in_the_order_of_the_page() -> None:
    assert best_passages(PAGE, "repair bikes, puncture and chain") == [
        "We repair bikes of every kind. Bring yours in the morning. You get it back in the evening.",
        "A puncture costs 9 euros. A new chain costs 30 euros.",
    ]
    assert best_passages(PAGE, "zebra") == []


def test_blocks_are_plain_text() -> None:
    assert plain_blocks(PAGE)[0] == "Bike shop"
    assert plain_blocks(PAGE)[1] == "Home Cart"
    assert plain_blocks(PAGE)[-1] == "Open Monday to Friday"
    assert plain_blocks("a \\* b \\[x\\]") == ["a * b [x]"]
