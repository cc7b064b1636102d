"""Tests of conditions on the JSON of an event: their meaning, their errors, and that they never raise."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.errors import WrongExpression
from receiver.replay.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    OPERATORS,
    WORDS,
    And,
    Comparison,
    EventCondition,
    Existence,
    Literal,
    Match,
    Not,
    Operand,
    Or,
    Path,
    compile_expression,
    parse,
)
from receiver.service.samples import load_sample
from tests.core.test_lenient_json import json_values

PAGE = load_sample("crawl.page")
EVENT: dict[str, Any] = {
    "success": True,
    "failed": False,
    "count": 2,
    "share": 0.5,
    "nothing": None,
    "name": "Zoë",
    "data": [{"n": 1, "tags": ["a", "b"]}, {"n": 5}, {"n": "5", "tags": []}],
    "empty": [],
    "in": "a word",
    "my key": {"0": "zero", "*": "star", 'a"b': "quote", "og:title": "colon"},
}


# --- what it means


@pytest.mark.parametrize(
    "text",
    [
        "data.0.metadata.statusCode >= 400 or data.0.metadata.statusCode == 200",
        "type == 'crawl.page' and success and not error exists",
        'type in ["crawl.page", "batch_scrape.page"]',
        "data.*.metadata.sourceURL matches '^https://example\\.com/'",
        "data.0.links contains 'https://example.com/book'",
        "data.0.markdown contains 'Puncture'",
        "metadata.customer == 'harbour-cycles'",
        "data.0.metadata.url == data.0.metadata.sourceURL",
    ],
)
def test_typical_conditions_are_true_for_a_page(text: str) -> None:
    """Names are the ones that the sender wrote."""
    assert compile_expression(text)(PAGE)
    assert not compile_expression(f"not ({text})")(PAGE)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("count == 2", True),
        ("count == 2.0", True),
        ("count != 2", False),
        ("count < 10", True),
        ("count < 2", False),
        ("count <= 2", True),
        ("count > -1.5e3", True),
        ("count >= 2", True),
        ("1 < count", True),
        ("name > 'A'", True),
        ('name == "Zo\\u00eb"', True),
        ("name == 'Zo\\u00eb'", False),
        ("success", True),
        ("success == true", True),
        ("failed", False),
        ("failed == false", True),
        ("count", False),
        ("name", False),
        ("nothing", False),
        ("missing", False),
    ],
)
def test_values_of_the_same_kind_are_compared(text: str, *, holds: bool) -> None:
    """Numbers are compared by value, texts by characters. A path alone is true if its value is true."""
    assert compile_expression(text)(EVENT) is holds


@pytest.mark.parametrize(
    "text",
    [
        "name < 5",
        "name >= 5",
        "count == '2'",
        "success == 1",
        "success >= 0",
        "count < true",
        "nothing < 1",
        "nothing == false",
        "nothing <= null",
        "data == data",
        "data < data",
        "my < 1",
        "count contains 2",
        "count matches '2'",
        "2 in count",
        "1 in name",
        "true in [1]",
        "data contains data",
        "count.real == 2",
        "name.0 == 'Z'",
    ],
)
def test_values_of_different_kinds_are_not_ordered(text: str) -> None:
    """The comparison is false and not an error. Such values are unequal."""
    assert compile_expression(text)(EVENT) is False


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("missing == null", True),
        ("missing.deeper.0.still == null", True),
        ("missing != null", False),
        ("missing != 5", True),
        ("nothing == null", True),
        ("missing == nothing", True),
        ("missing exists", False),
        ("nothing exists", True),
        ("data.3 == null", True),
        ("data.2 exists", True),
        ("data.3 exists", False),
        ("data.-1 exists", False),
        ("data.99999999999999999999 exists", False),
        ("$ exists", True),
        ("$.in == 'a word'", True),
        ("$.'my key'.0 == 'zero'", True),
        ("$.\"my key\".'*' == 'star'", True),
        ("$.'my key'.\"a\\\"b\" == 'quote'", True),
        ("$.'my key'.og:title == 'colon'", True),
    ],
)
def test_a_path_may_be_missing_or_have_unusual_names(text: str, *, holds: bool) -> None:
    """A missing value is like null. Only `exists` distinguishes them."""
    assert compile_expression(text)(EVENT) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("data.*.n == 5", True),
        ("data.*.n == 7", False),
        ("data.*.n != 1", True),
        ("not data.*.n == 7", True),
        ("7 == data.*.n", False),
        ("data.*.tags.* == 'b'", True),
        ("data.*.tags contains 'b'", True),
        ("data.*.tags == null", True),
        ("empty.* exists", False),
        ("empty.* == null", False),
        ("empty.* != 1", False),
        ("name.* exists", False),
        ("$.* == 2", True),
        ("$.'my key'.* == 'star'", True),
        ("data.*.n in [3, 4, 5]", True),
        ("'a' in data.*.tags", True),
        ("count in []", False),
        ("data.*.n matches '^5$'", True),
    ],
)
def test_a_star_matches_any_item(text: str, *, holds: bool) -> None:
    """It works for lists and objects. Without items each comparison is false."""
    assert compile_expression(text)(EVENT) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("success or failed and failed", True),
        ("(success or failed) and failed", False),
        ("not failed and success", True),
        ("not (failed and success)", True),
        ("not not success", True),
        ("failed or failed or success", True),
        ("\n success\tand\r\n(count==2)", True),
    ],
)
def test_not_has_precedence_over_and_which_has_precedence_over_or(text: str, *, holds: bool) -> None:
    """Parentheses make groups, and spaces have no meaning."""
    assert compile_expression(text)(EVENT) is holds


def test_any_json_value_can_be_tested() -> None:
    """It may be nested as deep as a parser accepts."""
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    values: list[Any] = [deep, None, 1, "text", [], {}]
    for value in values:
        assert not compile_expression("data.0.n == 1 or $ < data or $ != $ and data exists")(value)


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("", 1, "expected a path, a text in quotes, a number, true, false, null, or a list, found the end"),
        ("a ==", 5, "expected a path, a text in quotes, a number, true, false, null, or a list, found the end"),
        ("a == == b", 6, "expected a path"),
        ("a = 5", 3, "found '='; to compare two values, write =="),
        ("a & 5", 3, "found '&', which means nothing here"),
        ("a.b. == 5", 4, "found '.', which means nothing here"),
        ("a == 'open", 6, "found a quote that is not closed"),
        ("5", 2, "expected one of == != < <= > >= contains in, found the end"),
        ("a b", 3, "expected and, or, or the end, found b"),
        ("(a or b", 8, "expected and, or, or `)`, found the end"),
        ("a)", 2, "expected and, or, or the end, found )"),
        ("a in [1 2]", 9, "expected `,` or `]`, found 2"),
        ("a in [b]", 7, "expected a text in quotes, a number, true, false or null, found b"),
        ("a matches b", 11, "expected a regular expression in quotes, found b"),
        ("a matches '('", 11, "no regular expression: missing ), unterminated subpattern"),
        ('a == "\\q"', 6, "an escape that JSON does not have"),
        ('a."\\q" == 1', 1, "an escape that JSON does not have"),
        ("a.* == b.*", 8, "only one side may have `*`"),
        ("and", 1, "expected a path"),
        ("a == 'x\x1b' \x1b", 11, "which means nothing here"),
    ],
)
def test_the_error_for_a_wrong_expression_marks_the_place(text: str, at: int, words: str) -> None:
    """It has the mistake, the expected text and a mark, and no control characters."""
    with pytest.raises(WrongExpression) as caught:
        compile_expression(text)

    message, shown, mark = str(caught.value).split("\n")
    assert message.startswith(f"wrong expression at character {at}: ")
    assert words in message
    assert shown == "  " + text.replace("\x1b", " ")
    assert mark == " " * (at + 1) + "^"
    assert "\x1b" not in message


def test_the_error_shows_only_the_text_around_the_mistake() -> None:
    """A mark below a wrapped line would be at the wrong place."""
    with pytest.raises(WrongExpression) as caught:
        compile_expression("a == 1 or " * 90 + "?")

    message, shown, mark = str(caught.value).split("\n")
    assert "at character 901" in message
    assert shown[len(mark) - 1] == mark[-1].replace("^", "?")
    assert len(shown) < 80


@pytest.mark.parametrize("nested", ["({})", "not {}"])
def test_nesting_has_a_limit(nested: str) -> None:
    """The limit is fifty levels, and it is an error of the expression."""
    text = "a"
    for _ in range(MAX_DEPTH - 1):
        text = nested.format(text)
    assert compile_expression(text)({"a": True}) is (nested == "({})" or MAX_DEPTH % 2 == 1)

    with pytest.raises(WrongExpression, match="nested more than 50 deep"):
        compile_expression(nested.format(text))


def test_length_has_a_limit() -> None:
    """The limit is a thousand characters."""
    text = "a == '" + "x" * (MAX_LENGTH - 7) + "'"
    assert not compile_expression(text)({})

    with pytest.raises(WrongExpression, match="1,001 characters, 1,000 are allowed"):
        compile_expression(text + " ")


def test_a_pattern_causes_no_warning() -> None:
    """Python warns of patterns that may change their meaning, but the user of a command cannot act on that."""
    assert compile_expression("a matches '[[]'")({"a": "["})


# --- whatever is written


def written(node: Any) -> str:
    """Return the text of a condition with all possible parentheses."""
    match node:
        case Path(steps):
            return "$" + "".join("." + ("*" if step is None else json.dumps(step)) for step in steps)
        case Literal(value):
            return json.dumps(list(value) if isinstance(value, tuple) else value)
        case Comparison(left, operator, right):
            return f"{written(left)} {operator} {written(right)}"
        case Match(path, pattern):
            return f"{written(path)} matches {json.dumps(pattern.pattern)}"
        case Existence(path):
            return f"{written(path)} exists"
        case Not(part):
            return f"not ({written(part)})"
        case And(parts) | Or(parts):
            return f" {type(node).__name__.lower()} ".join(f"({written(part)})" for part in parts)
    raise AssertionError(node)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
names = st.sampled_from(["data", "n", "tags", "0", "1", "*", "a.b", *sorted(WORDS)]) | st.text(max_size=5)
plain_paths = st.builds(Path, st.lists(names, max_size=3).map(tuple))
paths = st.builds(Path, st.lists(names | st.none(), max_size=3).map(tuple))
literals = st.builds(Literal, scalars | st.lists(scalars, max_size=3).map(tuple))
operands: st.SearchStrategy[Operand] = plain_paths | literals
tests: st.SearchStrategy[EventCondition] = st.one_of(
    st.builds(Comparison, paths, st.sampled_from(sorted(OPERATORS)), operands),
    st.builds(Comparison, operands, st.sampled_from(sorted(OPERATORS)), paths),
    st.builds(Match, paths, st.text(max_size=5).map(re.escape).map(re.compile)),
    st.builds(Existence, paths),
)
conditions: st.SearchStrategy[EventCondition] = st.recursive(
    tests,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=4,
)


@given(conditions.filter(lambda condition: len(written(condition)) <= MAX_LENGTH), json_values)
def test_the_text_of_a_condition_is_read_as_the_same_condition(condition: EventCondition, value: object) -> None:
    """Every condition has a text, and no condition raises for any value."""
    assert parse(written(condition)) == condition
    assert condition.holds(value) in (True, False)


pieces = st.sampled_from(
    [
        *WORDS,
        *OPERATORS,
        "(",
        ")",
        "[",
        "]",
        ",",
        "$",
        ".",
        "*",
        "a",
        "data.0",
        "a.*",
        '"',
        "'",
        "\\",
        "1",
        "-",
        "1e9",
    ]
)


@given(st.lists(pieces | st.characters(), max_size=20), st.sampled_from(["", " "]), json_values)
def test_any_text_is_parsed_or_refused(parts: list[str], between: str, value: object) -> None:
    """No other exception is raised, at parsing or at use."""
    with suppress(WrongExpression):
        assert compile_expression(between.join(parts))(value) in (True, False)


@given(st.text(max_size=30))
def test_any_pattern_is_compiled_or_refused(pattern: str) -> None:
    """The reason why `re` refuses it makes no difference."""
    with suppress(WrongExpression):
        compile_expression(f"a matches {json.dumps(pattern)}")


@pytest.mark.parametrize("pattern", ["(" * 480 + ")" * 480, "a{99999999999999999999}", "(?P<1>a)", "[z-a]", "*"])
def test_a_pattern_that_re_cannot_compile_is_refused(pattern: str) -> None:
    """Patterns that are too deep or too large are refused too."""
    with pytest.raises(WrongExpression, match="no regular expression"):
        compile_expression(f"a matches '{pattern}'")
