"""One scrape from start to end: cache, formats, change tracking, warnings and costs."""
