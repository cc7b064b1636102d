"""One contract over every store, and what only SQLite has to promise."""
