"""Appends to a store in a process of its own, so that receiving and writing have a processor core each."""
