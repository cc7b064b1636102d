"""What the emulator remembers: one SQLite database, in memory or in a file."""
