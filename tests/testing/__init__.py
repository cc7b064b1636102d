"""Tests of the public test tools."""
