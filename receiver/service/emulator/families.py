"""The families of operations, put together: pages are fetched, read and scraped in one place for all of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from receiver.service.emulator.api.batch import batch_operations
from receiver.service.emulator.api.crawl import crawl_operations
from receiver.service.emulator.api.map import map_operations
from receiver.service.emulator.api.monitors import monitor_operations
from receiver.service.emulator.api.scrape import ScrapeOperations
from receiver.service.emulator.api.sockets import JobSockets
from receiver.service.emulator.content.page import read_page
from receiver.service.emulator.extraction.model import LanguageModel
from receiver.service.emulator.fetching.fetcher import Fetcher
from receiver.service.emulator.jobs.crawl_site import open_crawl_site
from receiver.service.emulator.jobs.engine import JobEngine
from receiver.service.emulator.parts import EmulatorBase, EmulatorParts
from receiver.service.emulator.scraping.kept import KeptScrapes
from receiver.service.emulator.scraping.scraper import PageScraper
from receiver.service.emulator.wire.scrape import read_scrape
