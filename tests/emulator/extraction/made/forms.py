"""How a made page is written down."""

import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
URL = "https://made.example/page"
_TYPES: dict[str, Json] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "whole": {"type": "integer"},
    "flag": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "url": {"type": "string", "format": "uri"},
}
NAVIGATION = (
    '<header><a href="/">Home</a> <a href="/about">About</a><form>Search: <input name="q"></form></header>'
    '<nav class="menu"><ul><li><a href="/a">News</a></li><li><a href="/b">Products</a></li></ul></nav>'
)
FOOTER = '<footer><p>© 2026 Made Pages. All rights reserved.</p><a href="/terms">Terms</a></footer>'


@dataclass(frozen=True)
class MadePage:
    """A page, what is asked of it, and the answer."""

    name: str
    body: str
    fields: Any
    """The form of the answer in short: names of types, dictionaries, lists of one item, `a|b` for a choice."""
    answer: Any
    head: str = ""
    language: str = "en"

    @property
    def html(self) -> str:
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", self.body)
        title = f"{heading[1]} - Made Pages" if heading else "Made Pages"
        return (
            f'<!doctype html><html lang="{self.language}"><head><meta charset="utf-8"><title>{title}</title>'
            f"{self.head}</head><body>{NAVIGATION}{self.body}{FOOTER}</body></html>"
        )

    @property
    def schema(self) -> Json:
        return schema_of(self.fields)


def schema_of(fields: Any) -> Json:
    """Return the JSON Schema for the short form."""
    if isinstance(fields, dict):
        return {"type": "object", "properties": {name: schema_of(inner) for name, inner in fields.items()}}
    if isinstance(fields, list):
        return {"type": "array", "items": schema_of(fields[0])}
    return {"enum": fields.split("|")} if "|" in fields else _TYPES[fields]


def json_ld(text: str) -> str:
    """Return a script with data for programs."""
    return f'<script type="application/ld+json">{text}</script>'
