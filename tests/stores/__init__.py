"""One contract for every store, and the promises of SQLite alone."""
