"""Forty made pages of many kinds, and what stands on each of them."""

from tests.emulator.extraction.made.articles import ARTICLES
from tests.emulator.extraction.made.companies import COMPANIES
from tests.emulator.extraction.made.events import EVENTS
from tests.emulator.extraction.made.forms import MadePage
from tests.emulator.extraction.made.job_ads import JOB_ADS
from tests.emulator.extraction.made.shops import SHOPS
from tests.emulator.extraction.made.tables import TABLES

PAGES: tuple[MadePage, ...] = (*SHOPS, *ARTICLES, *JOB_ADS, *TABLES, *COMPANIES, *EVENTS)
