"""Names of properties as words, so that `datePublished`, `date_published` and `Date published` are one name."""

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
MAX_NAME = 200
"""Characters of a name that are read."""

_SAME = (
    ("title", "name", "headline", "pagetitle", "ogtitle", "h1"),
    ("description", "summary", "abstract", "ogdescription", "metadescription"),
    ("price", "lowprice", "cost", "currentprice", "saleprice"),
    ("currency", "pricecurrency", "currencycode"),
    ("author", "creator", "byline", "writer", "articleauthor"),
    ("date", "datepublished", "published", "publishedat", "publishdate", "publicationdate", "publishedtime"),
    ("datemodified", "modified", "updated", "updatedat", "lastmodified", "lastupdated", "modifiedtime"),
    ("image", "imageurl", "thumbnail", "thumbnailurl", "ogimage", "photo", "picture"),
    ("url", "link", "href", "canonicalurl", "pageurl", "ogurl"),
    ("brand", "manufacturer", "maker", "vendor"),
    ("rating", "ratingvalue", "averagerating", "star", "score"),
    ("reviewcount", "ratingcount", "numberofreviews", "numberofratings"),
    ("phone", "telephone", "phonenumber", "tel"),
    ("email", "mail", "emailaddress"),
    ("address", "streetaddress"),
    ("availability", "instock", "stock", "available"),
    ("sku", "productid", "articlenumber", "mpn"),
    ("company", "organization", "publisher", "employer", "hiringorganization"),
    ("salary", "pay", "basesalary", "compensation", "wage"),
    ("language", "inlanguage", "lang"),
    ("tag", "keyword"),
    ("category", "section", "articlesection"),
    ("content", "text", "body", "articlebody"),
    ("sitename", "ogsitename"),
)
_SYNONYMS = {name: frozenset(group) for group in _SAME for name in group}


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case and in the singular."""
    return words_in(name[:MAX_NAME])


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of a text of any length in lower case and in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(text))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def key_of(name: str) -> str:
    """Return the name as one word, the same for all spellings."""
    return "".join(words_of(name))


def synonyms_of(name: str) -> frozenset[str]:
    """Return the keys that mean the same as a name, itself among them."""
    key = key_of(name)
    return _SYNONYMS.get(key, frozenset()) | {key}


def likeness(wanted: str, label: str) -> int:
    """Return how well a label fits a name: 3 the same, 2 a synonym, 1 the same words among others, 0 not at all."""
    key = key_of(label)
    if not key:
        return 0
    if key == key_of(wanted):
        return 3
    if key in synonyms_of(wanted):
        return 2
    wanted_words, label_words = set(words_of(wanted)), set(words_of(label))
    near = abs(len(wanted_words) - len(label_words)) <= 2
    return int(bool(wanted_words) and near and (wanted_words < label_words or label_words < wanted_words))
