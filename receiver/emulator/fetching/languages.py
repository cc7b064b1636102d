"""The Accept-Language header that somebody in a country sends."""

import re

_LANGUAGES = {
    "AE": "ar", "AR": "es", "AT": "de", "AU": "en", "BD": "bn", "BE": "nl", "BG": "bg", "BR": "pt", "CA": "en",
    "CH": "de", "CL": "es", "CN": "zh", "CO": "es", "CY": "el", "CZ": "cs", "DE": "de", "DK": "da", "DZ": "ar",
    "EC": "es", "EE": "et", "EG": "ar", "ES": "es", "FI": "fi", "FR": "fr", "GB": "en", "GE": "ka", "GR": "el",
    "HK": "zh", "HR": "hr", "HU": "hu", "ID": "id", "IE": "en", "IL": "he", "IN": "en", "IQ": "ar", "IR": "fa",
    "IS": "is", "IT": "it", "JP": "ja", "KE": "sw", "KR": "ko", "KZ": "kk", "LT": "lt", "LU": "lb", "LV": "lv",
    "MA": "ar", "MX": "es", "MY": "ms", "NG": "en", "NL": "nl", "NO": "nb", "NZ": "en", "PE": "es", "PH": "en",
    "PK": "ur", "PL": "pl", "PT": "pt", "QA": "ar", "RO": "ro", "RS": "sr", "RU": "ru", "SA": "ar", "SE": "sv",
    "SG": "en", "SI": "sl", "SK": "sk", "TH": "th", "TN": "ar", "TR": "tr", "TW": "zh", "UA": "uk", "US": "en",
    "UY": "es", "VE": "es", "VN": "vi", "ZA": "en",
}  # fmt: skip
"""ISO 3166-1 country to the ISO 639-1 language that most of its sites are in."""
_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*|\*")
"""RFC 4647, section 2.1."""
_MAX_LANGUAGES = 10


def accept_language(country: str, languages: tuple[str, ...] = ()) -> str:
    """Return the value of Accept-Language: the languages in their order, else the one of the country.

    What is no language tag is left out.
    """
    own = _LANGUAGES.get(country.upper())
    wanted = languages or ((f"{own}-{country.upper()}", own) if own else ())
    tags = [tag for tag in wanted if _TAG.fullmatch(tag)][:_MAX_LANGUAGES]
    return ",".join(tag if place == 0 else f"{tag};q={1 - place / 10:.1f}" for place, tag in enumerate(tags))
