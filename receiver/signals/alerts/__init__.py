"""Alerts: what needs somebody, posted to a chat or any other URL."""
