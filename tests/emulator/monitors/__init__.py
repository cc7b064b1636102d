"""Monitors of the emulator: schedule, checks, operations."""
