"""Tests of this deployment's own handlers."""
