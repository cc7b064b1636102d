"""What several commands share: options, tables, plans, progress."""
