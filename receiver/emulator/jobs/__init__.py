"""The durable job engine, and the crawls and batch scrapes that it runs."""
