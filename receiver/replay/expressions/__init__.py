"""Conditions on the JSON of an event, as in `data.0.metadata.statusCode >= 400`."""

from collections.abc import Callable

from receiver.replay.expressions.grammar import parse


def compile_expression(text: str) -> Callable[[object], bool]:
    """Return a function that tells whether a parsed JSON value matches the expression, or raise WrongExpression.

    The function never raises, whatever the value. The language:

    - A path leads from the event down, by the names that the sender wrote; `receiver events raw` shows them:
      `data.0.metadata.sourceURL`. A number is an index. `*` stands for every item of a list or object. A name with
      unusual characters is quoted: `metadata."my key"`. `$` is the event itself; use it if the first name is a
      word of the language: `$.exists`.
    - `==`, `!=`, `<`, `<=`, `>`, `>=` compare paths, texts, numbers, `true`, `false` and `null`. A missing value is
      like null. Values of different kinds are not equal, and neither is less. A list or object equals nothing.
    - `contains` searches for a part of a text or an item of a list. `in` is the reverse, also with a written list:
      `type in ["crawl.page", "batch_scrape.page"]`.
    - `matches` searches a text for a regular expression of Python's `re`. Whoever writes the pattern decides how
      long that takes: a pattern like `(a+)+$` takes for ever on some texts.
    - `exists` is true for every value that is present, also null. A path alone is true if its value is true.
    - A comparison with `*` in its path is true if it is true for any item. Only one side may have `*`.
    - `not` binds closer than `and`, and `and` closer than `or`. Parentheses group.
    - "Texts" have the escapes of JSON. 'Texts' have no escapes, which suits patterns.

    An expression may have 1,000 characters and be nested 50 deep.
    """
    return parse(text).holds
