"""Tests of the emulator's state."""
