"""Prices in credits, for estimates before a request and for what the emulator charges after it."""

PAGE = 1
"""A page, also each page of a PDF."""
LOCKDOWN = 5
"""A page from the cache alone, instead of the price of a page."""
JSON = 5
"""A page from which data is extracted, instead of the price of a page."""
DETERMINISTIC_JSON, REUSED_JSON = 10, 3
"""The same by a program that is made once: the page it is made for, and a page it is reused for."""
ENHANCED = 5
"""The most that a page through the enhanced proxy costs, instead of the price of a page."""
URL_CHECK = 2
"""Checking one URL."""
EXTRA = 4
"""What some formats add to the price of the page, and redaction for each page of a file."""
EXTRA_FORMATS = frozenset({"question", "highlights", "audio", "video"})
"""The formats that add it."""
UNKEPT = 1
"""What zero data retention adds to the price of the page."""
SEARCH = 2
"""Each ten hits of a search, as far as they are begun."""
