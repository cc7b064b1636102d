"""The scraper of the emulator: cache, history, costs, documents."""
