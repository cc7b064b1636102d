"""What is said when the packages of an extra are missing. This module needs no such package."""

import importlib.util

from receiver.errors import ConfigurationError

EMULATOR_MODULES = (
    "brotli",
    "httpcore",
    "jsonschema",
    "mammoth",
    "openpyxl",
    "protego",
    "publicsuffixlist",
    "pypdf",
    "python_multipart",
    "re2",
    "selectolax",
    "tzdata",
    "websockets",
    "zstandard",
)
"""What the extra `emulator` installs, by the names of the modules."""


def require_emulator() -> None:
    """Raise ConfigurationError if a package of the extra `emulator` is missing."""
    if any(importlib.util.find_spec(name) is None for name in EMULATOR_MODULES):
        advice = "pip install 'crawl-receiver[emulator]'"
        raise ConfigurationError(f"the emulator needs packages that are not installed: {advice}")
