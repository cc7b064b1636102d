"""The HTTP side: one module for each family of operations."""
