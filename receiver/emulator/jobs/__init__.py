"""Crawls and batch scrapes: what is to be scraped, what came out, and what the webhooks tell of it."""
