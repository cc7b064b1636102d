"""Hostile pages and schemas: bounded work, and a warning in place of a crash."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import Wish, extract_by_rules
from receiver.emulator.extraction.marks import MAX_ITEMS, MicrodataReader, json_ld_items
from receiver.emulator.extraction.reading import MAX_LINES, BlockReader, parse_page, walk
from receiver.emulator.extraction.schemas import MAX_STEPS, SchemaReader, SchemaTooLarge, schema_errors

Json = dict[str, Any]
URL = "https://shop.example/"
HTML = (
    '<h1>Bike</h1><p>Price: 5</p><script type=\'application/ld+json\'>{"name": "Bike", "a": {"name": "b"}}</script>'
)


def data_of(schema: Any, html: str = HTML) -> Any:
    return extract_by_rules(ExtractionSource(url=URL, html=html), Wish(schema))


LOOP = {"$ref": "#"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [LOOP, LOOP]},
        {"anyOf": [LOOP, LOOP]},
        {"properties": {"name": LOOP, "a": LOOP, "b": LOOP, "c": LOOP}},
        {"type": "array", "items": LOOP},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$ref": "https://evil.example/schema"},
        {"$ref": "#/nothing/here"},
        {"$ref": "#/enum/0", "enum": [1]},
        {"$dynamicRef": "#x"},
        {"properties": {f"name{n}": {"type": "string"} for n in range(10_000)}},
        {"enum": list(range(200_000))},
        {"properties": {"name": {"type": "string", "pattern": "(a+)+$"}}},
        {"properties": {"name": {"type": "string", "pattern": "(?=broken"}}},
        {"properties": {"name": {"type": "nonsense"}}},
        {"properties": 1, "items": 2, "enum": 3, "anyOf": 4, "type": 5, "$ref": 6, "required": 7},
        {"patternProperties": {"(a+)+$": {"type": "string"}}, "properties": {"name": {}}},
        {"not": LOOP, "properties": {"name": {}}},
        {"if": LOOP, "then": LOOP, "else": LOOP, "properties": {"name": {}}},
    ],
    ids=lambda schema: str(schema)[:40],
)
def test_a_hostile_schema_ends_with_a_result_or_a_warning(schema: Json) -> None:
    result = data_of(schema)

    assert result.data is not None or result.warnings


def test_references_that_multiply_are_counted() -> None:
    """Each definition refers to the next one twice: 2 to the power of 60 schemas."""
    names = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**names, "d60": {"type": "string"}}}
    reader = SchemaReader(schema)

    with pytest.raises(SchemaTooLarge):
        list(reader.alternatives(schema))
    assert reader.steps <= MAX_STEPS + 100
    with pytest.raises(SchemaTooLarge):
        schema_errors("a", schema)


def test_a_large_result_of_a_branching_schema_is_validated_within_its_steps() -> None:
    """Sixty levels of alternatives, none of which fits."""
    schema: Json = {"type": "integer"}
    for _ in range(60):
        schema = {"anyOf": [schema, {"type": "integer"}], "allOf": [schema]}

    with pytest.raises(SchemaTooLarge):
        schema_errors("text", schema)


KEYWORDS = st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "name"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYWORDS, VALUES, max_size=5))
@example({"type": None, "properties": None, "anyOf": [{"properties": {}}]})
@settings(max_examples=200, deadline=None)
def test_any_object_is_read_as_a_schema(schema: Json) -> None:
    result = data_of(schema)

    assert result.data is not None or result.warnings


@given(st.text(alphabet="<>/=\"' abtdhrliu:|\n", max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_page_is_read(html: str) -> None:
    assert data_of({"properties": {"name": {"type": "string"}, "list": {"type": "array"}}}, html) is not None


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 50_000 + "<p>Price: 5</p>",
        "<table><tr><td>" * 5_000,
        "<ul><li>" * 20_000,
        "<div itemscope><b itemprop=a>" * 10_000,
        "<dl>" + "<dt>a<dd>b" * 50_000,
        "<td>" * 50_000 + "</tr>" * 50_000,
    ],
    ids=["nested", "nested tables", "nested lists", "nested items", "many pairs", "unbalanced"],
)
def test_pages_of_any_depth_are_read(html: str) -> None:
    assert data_of({"properties": {"price": {"type": "number"}}}, html) is not None


def test_what_is_kept_of_a_page_is_bounded() -> None:
    html = "<p>a: b</p>" * (MAX_LINES + 10) + "<i itemscope><b itemprop=c>d</b></i>" * (MAX_ITEMS + 10)
    tree, reader, microdata = parse_page(html), BlockReader(), MicrodataReader(URL)
    assert tree is not None
    walk(tree, (reader, microdata))

    assert len(reader.blocks.lines) == MAX_LINES
    assert len(microdata.items) <= MAX_ITEMS


@pytest.mark.parametrize(
    "script", ["", "{", "[" * 100_000, "null", "1", '"a"', '{"@graph": 1}', '{"@type": {}}', "[[[1]]]"]
)
def test_broken_data_for_programs_are_left_out(script: str) -> None:
    tree = parse_page(f'<script type="application/ld+json">{script}</script>')
    assert tree is not None

    assert [item.values for item in json_ld_items(tree) if item.values] in ([], [{"@graph": 1}])


def test_a_huge_page_is_read_in_its_first_part() -> None:
    result = data_of({"properties": {"price": {"type": "number"}}}, "<p>Price: 5</p>" + "<p>x</p>" * 1_000_000)

    assert result.data == {"price": 5}
