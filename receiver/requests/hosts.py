"""The names of hosts, by the rules of the internet and not by those of one resolver."""

import string

from receiver.core.addresses import fits_dns

_LETTERS_DIGITS_HYPHEN = frozenset(string.ascii_letters + string.digits + "-")
_URL_MARKS = frozenset("/:?#@\\")


def require_host_name(value: str) -> str:
    """Return the name of a public host: RFC 952 as changed by RFC 1123, section 2.1.

    Its labels have letters, digits and hyphens, a hyphen neither first nor last. It has a dot, and its last label
    is no number, unlike that of an address. A name in another script is given with its A-labels (RFC 5890).
    """
    labels = value.split(".")
    well_formed = len(labels) >= 2 and not labels[-1].isdigit() and all(_is_host_label(label) for label in labels)
    if not well_formed or not fits_dns(value):
        raise ValueError("a host name such as example.com, without protocol, path or wildcard")
    return value


def _is_host_label(label: str) -> bool:
    return _LETTERS_DIGITS_HYPHEN.issuperset(label) and label.strip("-") == label != ""


def require_domain(value: str) -> str:
    """Return a domain or a pattern with wildcards: interface specification, threatProtection, blacklist."""
    if not _is_part_of_host(value):
        raise ValueError("a plain domain or a wildcard pattern, without protocol, path or port")
    return value


def require_top_level_domain(value: str) -> str:
    """Return a top-level domain: interface specification, threatProtection, blockedTlds."""
    if not _is_part_of_host(value) or value.startswith(".") or value != value.lower():
        raise ValueError("a top-level domain in lower case, without leading dot")
    return value


def _is_part_of_host(text: str) -> bool:
    return text != "" and not any(character.isspace() or character in _URL_MARKS for character in text)
