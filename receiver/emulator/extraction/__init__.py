"""Structured data out of pages: by rules, which invent nothing, or by a language model that the user names."""
