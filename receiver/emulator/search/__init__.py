"""Search: an index of the pages that were scraped and of the given sites, and what answers queries with it."""
