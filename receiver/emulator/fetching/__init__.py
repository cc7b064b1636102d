"""How pages are reached: given sites, HTTP within limits, robots.txt, sitemaps, and the scope of a crawl."""
