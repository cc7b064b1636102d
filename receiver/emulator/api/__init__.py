"""The HTTP side: one module for each family of operations, and what all calls have in common."""
