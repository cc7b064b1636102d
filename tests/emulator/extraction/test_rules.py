"""Schemas filled by rules from everything that a page says of itself, with values in the types of the schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import Extraction, Wish, extract_by_rules
from receiver.emulator.extraction.rules import MISSING, as_choice, as_flag, as_number, as_text

Json = dict[str, Any]
URL = "https://shop.example/bikes/1"
TEXT, NUMBER, FLAG, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "integer"}

PRODUCT = """<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [
{"@type": "Product", "name": "City bike", "brand": {"@type": "Brand", "name": "Acme"}, "sku": "C-1",
 "image": ["/a.jpg", "/b.jpg"], "offers": {"@type": "Offer", "price": "1,299.00", "priceCurrency": "EUR",
 "availability": "https://schema.org/InStock"}, "aggregateRating": {"ratingValue": "4.5", "reviewCount": 12},
 "review": [{"author": {"name": "Person One"}, "reviewBody": "Fine"},
  {"author": "Person Two", "reviewBody": "Loud"}]},
{"@type": ["Organization", "Store"], "name": "Acme Shop", "telephone": "+49 30 1234567"}]}</script>"""
ARTICLE = """<meta property="og:title" content="A title">
<script type="application/ld+json">{"@type": "NewsArticle", "headline": "A headline",
"datePublished": "2026-08-03T09:00:00Z", "author": [{"name": "Person One"}, {"name": "Person Two"}],
"keywords": "bikes, shops"}</script>"""
TABLE = """<h2>Plans</h2><table><thead><tr><th>Plan</th><th>Price per month</th><th>Users</th></tr></thead>
<tr><td>Free</td><td>0 €</td><td>1</td></tr><tr><td>Team</td><td>12,50 €</td><td>25</td></tr></table>"""
PAIRS = """<h1>Contact</h1><p><b>Phone:</b> +49 30 1234567</p><dl><dt>Opening hours</dt><dd>8 to 18</dd></dl>
<table><tr><th>Weight</th><td>12.5 kg</td></tr><tr><th>In stock</th><td>yes</td></tr></table>"""
MICRODATA = """<div itemscope itemtype="https://schema.org/Event"><h1 itemprop="name">Fair</h1>
<time itemprop="startDate" datetime="2026-09-01">1 September</time>
<div itemprop="location" itemscope itemtype="https://schema.org/Place"><span itemprop="name">Hall 1</span></div>
<a itemprop="url" href="/fair">more</a><meta itemprop="price" content="10"></div>"""
LISTS = """<h2>Features</h2><ul><li>Light</li><li>Fast<ul><li>Very</li></ul></li></ul>
<h2>Colours</h2><ol><li>Red</li></ol>"""


def found(html: str, properties: Json, **source: Any) -> Extraction:
    return extract_by_rules(
        ExtractionSource(url=URL, html=html, **source), Wish({"type": "object", "properties": properties})
    )


def one(html: str, name: str, schema: Json, **source: Any) -> Any:
    return found(html, {name: schema}, **source).data


def list_of(**properties: Json) -> Json:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


@pytest.mark.parametrize(
    ("html", "name", "schema", "value"),
    [
        (PRODUCT, "name", TEXT, "City bike"),
        (PRODUCT, "product_name", TEXT, "City bike"),
        (PRODUCT, "brand", TEXT, "Acme"),
        (PRODUCT, "manufacturer", TEXT, "Acme"),
        (PRODUCT, "price", NUMBER, 1299),
        (PRODUCT, "price", TEXT, "1,299.00"),
        (PRODUCT, "priceCurrency", TEXT, "EUR"),
        (PRODUCT, "currency", {"enum": ["eur", "usd"]}, "eur"),
        (PRODUCT, "in_stock", FLAG, True),
        (PRODUCT, "availability", {"enum": ["In stock", "Sold out"]}, "In stock"),
        (PRODUCT, "rating", NUMBER, 4.5),
        (PRODUCT, "rating", WHOLE, None),
        (PRODUCT, "reviewCount", WHOLE, 12),
        (PRODUCT, "images", {"type": "array", "items": {"type": "string", "format": "uri"}},
         ["https://shop.example/a.jpg", "https://shop.example/b.jpg"]),
        (PRODUCT, "reviews", list_of(author=TEXT, reviewBody=TEXT),
         [{"author": "Person One", "reviewBody": "Fine"}, {"author": "Person Two", "reviewBody": "Loud"}]),
        (PRODUCT, "offers", {"type": "object", "properties": {"price": NUMBER}}, {"price": 1299}),
        (PRODUCT, "organization", {"type": "object", "properties": {"name": TEXT, "phone": TEXT}},
         {"name": "Acme Shop", "phone": "+49 30 1234567"}),
        (PRODUCT, "isbn", TEXT, None),
        (ARTICLE, "headline", TEXT, "A headline"),
        (ARTICLE, "date", TEXT, "2026-08-03T09:00:00Z"),
        (ARTICLE, "datePublished", {"type": "string", "format": "date"}, "2026-08-03"),
        (ARTICLE, "authors", {"type": "array", "items": TEXT}, ["Person One", "Person Two"]),
        (ARTICLE, "author", TEXT, "Person One, Person Two"),
        (ARTICLE, "tags", {"type": "array", "items": TEXT}, ["bikes", "shops"]),
        (TABLE, "plans", list_of(plan=TEXT, price=NUMBER, users=WHOLE),
         [{"plan": "Free", "price": 0, "users": 1}, {"plan": "Team", "price": 12.5, "users": 25}]),
        (TABLE, "anything", list_of(plan=TEXT, price=NUMBER),
         [{"plan": "Free", "price": 0}, {"plan": "Team", "price": 12.5}]),
        (TABLE, "planets", list_of(mass=NUMBER, moons=WHOLE), None),
        (TABLE, "users", {"type": "array", "items": WHOLE}, [1, 25]),
        (PAIRS, "phone", TEXT, "+49 30 1234567"),
        (PAIRS, "openingHours", TEXT, "8 to 18"),
        (PAIRS, "weight", NUMBER, 12.5),
        (PAIRS, "weight", TEXT, "12.5 kg"),
        (PAIRS, "inStock", FLAG, True),
        (PAIRS, "title", TEXT, "Contact"),
        (MICRODATA, "startDate", TEXT, "2026-09-01"),
        (MICRODATA, "event", {"type": "object", "properties": {"name": TEXT, "url": TEXT}},
         {"name": "Fair", "url": "https://shop.example/fair"}),
        (MICRODATA, "location", TEXT, "Hall 1"),
        (MICRODATA, "price", NUMBER, 10),
        (LISTS, "features", {"type": "array", "items": TEXT}, ["Light", "Fast"]),
        (LISTS, "colours", {"type": "array"}, ["Red"]),
        (LISTS, "headings", {"type": "array", "items": TEXT}, ["Features", "Colours"]),
        ("<p>Temperature: &minus;3,5 °C</p>", "temperature", NUMBER, -3.5),
        ("<p>Visitors: 1.2 million</p>", "visitors", NUMBER, 1_200_000),
        ("<p>Visitors: about 1.234.567</p>", "visitors", WHOLE, 1_234_567),
        ("<p>See: https://shop.example/x</p>", "https", TEXT, None),
    ],
)  # fmt: skip
def test_a_property_gets_its_value(html: str, name: str, schema: Json, value: Any) -> None:
    """It is matched by name, synonyms and words, in data for programs first, and turned into the type."""
    data = one(html, name, schema)

    assert (data if data is None else data[name]) == value


def test_what_is_missing_is_null_and_a_warning_names_it() -> None:
    """Nothing is invented, not even a default."""
    result = found(PRODUCT, {"name": TEXT, "isbn": {"type": "string", "default": "x"}, "pages": WHOLE})

    assert result.data == {"name": "City bike", "isbn": None, "pages": None}
    assert result.warnings == ("json: the page has no value for isbn, pages",)


def test_a_page_with_nothing_gives_null() -> None:
    assert found("<p></p>", {"isbn": TEXT}).data is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"minimum": 2_000}, None),
        ({"maximum": 2_000}, 1299),
        ({"multipleOf": 2}, None),
    ],
)
def test_a_value_that_breaks_the_schema_is_dropped(schema: Json, value: Any) -> None:
    result = found(PRODUCT, {"price": {"type": "number", **schema}, "name": TEXT})

    assert result.data == {"price": value, "name": "City bike"}
    assert any("does not fit its schema: price" in one for one in result.warnings) is (value is None)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"type": ["string", "null"]},
        {"$ref": "#/$defs/name"},
        {"allOf": [{"$ref": "#/$defs/name"}, {"minLength": 1}]},
        {},
        True,
    ],
    ids=str,
)
def test_every_way_to_write_a_schema_is_read(schema: Any) -> None:
    wish = Wish({"properties": {"name": schema}, "$defs": {"name": {"type": "string"}}})

    assert extract_by_rules(ExtractionSource(url=URL, html=PRODUCT), wish).data == {"name": "City bike"}


def test_a_list_at_the_top_is_the_table_that_fits() -> None:
    wish = Wish(list_of(plan=TEXT, price=NUMBER))

    assert extract_by_rules(ExtractionSource(url=URL, html=TABLE), wish).data == [
        {"plan": "Free", "price": 0},
        {"plan": "Team", "price": 12.5},
    ]


def test_markdown_of_other_files_is_read_like_a_page() -> None:
    markdown = (
        "# Invoice\n\nNumber: 42\n\n| Item | Price |\n| --- | --- |\n| Bike | 5 |\n\n## Terms\n\n- cash\n- card"
    )
    properties = {
        "number": WHOLE,
        "title": TEXT,
        "items": list_of(item=TEXT, price=NUMBER),
        "terms": {"type": "array", "items": TEXT},
    }
    wish = Wish({"properties": properties})

    assert extract_by_rules(ExtractionSource(url=URL, markdown=markdown), wish).data == {
        "number": 42,
        "title": "Invoice",
        "items": [{"item": "Bike", "price": 5}],
        "terms": ["cash", "card"],
    }


def test_a_json_page_is_its_own_evidence() -> None:
    data = {"user": {"first_name": "Person One", "tags": ["a", "b"]}, "items": [{"price": "5"}, {"price": "x"}]}
    properties = {"firstName": TEXT, "tags": {"type": "array", "items": TEXT}, "items": list_of(price=NUMBER)}
    result = extract_by_rules(ExtractionSource(url=URL, data=data), Wish({"properties": properties}))

    assert result.data == {"firstName": "Person One", "tags": ["a", "b"], "items": [{"price": 5}]}


@pytest.mark.parametrize(
    ("prompt", "data"),
    [
        ("Extract the price and the brand", {"price": "1,299.00", "brand": {"@type": "Brand", "name": "Acme"}}),
        ("Tell me something", {"title": "City bike"}),
    ],
)
def test_without_a_schema_the_words_of_the_prompt_are_looked_up(prompt: str, data: Json) -> None:
    result = extract_by_rules(ExtractionSource(url=URL, html=PRODUCT), Wish(None, prompt))

    assert result.data == data
    assert result.warnings


@pytest.mark.parametrize(
    ("html", "mail"),
    [
        ("<p>Contact: sales@acme.example</p>", "sales@acme.example"),
        ("<p>Write to <b>Info@acme.example</b>, or call.</p><p>info@acme.example.</p>", "Info@acme.example"),
        ("<footer>a.b+c@mail.acme.example · Berlin</footer>", "a.b+c@mail.acme.example"),
        ("<p>sales@acme.example</p><p>help@acme.example</p>", None),
        ("<p>icon@2x.png, @acme and a@b</p>", None),
        ("<p>sales@acme.example</p><a href='mailto:help@acme.example'>Help</a>", "help@acme.example"),
    ],
)
def test_the_only_mail_address_in_the_text_is_the_one_of_the_page(html: str, mail: str | None) -> None:
    """Between several nothing says which one is meant, unless a link or a label does."""
    result = found(f"<h1>Acme</h1>{html}", {"title": TEXT, "email": TEXT})

    assert result.data["email"] == mail


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("£1,299.00", 1299),
        ("1.299,00 €", 1299),
        ("1 299,50 kr", 1299.5),
        ("1'299.50 CHF", 1299.5),
        ("1,299", 1299),
        ("1.299", 1.299),
        ("12,5", 12.5),
        ("1,234,567", 1234567),
        ("1.234.567", 1234567),
        ("-3.5", -3.5),
        ("\u22123", -3),
        ("4.5/5", 4.5),
        ("3k users", 3000),
        ("2.5 bn", 2.5e9),
        ("3 kg", 3),
        ("1e3", 1000),
        ("none", None),
        ("", None),
        ("1" * 400, None),
        ("1.2.3", None),
    ],
)
def test_the_number_of_a_text(text: str, number: float | None) -> None:
    found = as_number(text, whole=False)

    assert (None if found is MISSING else found) == number


@pytest.mark.parametrize(
    ("value", "number"), [(True, None), ({"price": "5"}, 5), (["6"], 6), ([], None), (None, None)]
)
def test_the_number_of_other_values(value: Any, number: float | None) -> None:
    found = as_number(value, whole=True)

    assert (None if found is MISSING else found) == number


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        ("Yes", True),
        ("https://schema.org/InStock", True),
        ("http://schema.org/OutOfStock", False),
        ("Sold out", False),
        (1, True),
        (0, False),
        (2, None),
        ("maybe", None),
        ([True], True),
    ],
)
def test_yes_and_no(value: Any, flag: bool | None) -> None:
    found = as_flag(value)

    assert (None if found is MISSING else found) is flag


def test_a_choice_is_found_in_any_spelling() -> None:
    assert as_choice("https://schema.org/NewCondition", ["new-condition", "used"]) == "new-condition"
    assert as_choice(["x", "USED"], ["new", "used"]) == "used"
    assert as_choice("other", ["new", "used"]) is MISSING
    assert as_choice(None, [None]) is MISSING
    assert as_choice("5", [5]) == 5


def test_a_text_is_that_of_an_objects_name() -> None:
    assert as_text({"@type": "Brand", "name": "Acme"}, {}, "") == "Acme"
    assert as_text(["a", "b"], {}, "") == "a, b"
    assert as_text("/a", {"format": "uri"}, "https://shop.example/x") == "https://shop.example/a"
    assert as_text({}, {}, "") is MISSING


@given(st.text())
def test_any_text_is_tried(text: str) -> None:
    for found in (
        as_number(text, whole=True),
        as_number(text, whole=False),
        as_flag(text),
        as_choice(text, [text]),
    ):
        assert found is not None
