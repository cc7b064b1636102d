"""Monitors: recurring checks of pages and sites, what they found, and who hears of it."""
