"""Extractions and agents: pages are found, scraped one after the other, and give one result together."""
