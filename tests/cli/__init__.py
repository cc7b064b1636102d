"""Tests that run commands as a user does."""
