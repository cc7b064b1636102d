"""The words and the pure rules that every other room shares."""
