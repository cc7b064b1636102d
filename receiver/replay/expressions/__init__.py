"""Conditions on the JSON of an event, as in `data.0.metadata.statusCode >= 400`."""

from collections.abc import Callable

from receiver.replay.expressions.grammar import parse


def compile_expression(text: str) -> Callable[[object], bool]:
    """Return what tells whether a parsed JSON value fits the expression, or raise WrongExpression.

    What is returned never raises, whatever the value. The language:

    - A path leads from the event down, by the names that the sender wrote, as `receiver events raw` shows them:
      `data.0.metadata.sourceURL`. A number is an index, `*` stands for every item of a list or object, an odd
      name is quoted: `metadata."my key"`. `$` is the event itself, for a first name that is odd or a word of the
      language: `$.exists`.
    - `==`, `!=`, `<`, `<=`, `>`, `>=` compare paths, texts, numbers, `true`, `false` and `null`. What is missing
      is like null. Values of unlike kinds are not equal, and neither is less; a list or object equals nothing.
    - `contains` looks for a part of a text or an item of a list, `in` is the same the other way round, also with
      a written list: `type in ["crawl.page", "batch_scrape.page"]`.
    - `matches` searches a text for a regular expression of Python's `re`. How long one takes is up to whoever
      wrote it: a pattern like `(a+)+$` takes for ever on some texts.
    - `exists` holds of what is there, null included. A path alone holds when its value is true.
    - A comparison of a path with `*` holds if it does for any item. One side may have `*`.
    - `not` binds closer than `and`, that closer than `or`; parentheses group.
    - "Texts" have the escapes of JSON; 'texts' have none, which suits patterns.

    It may be 1,000 characters long and nested 50 deep.
    """
    return parse(text).holds
