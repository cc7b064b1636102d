"""Alerts: problems that need attention, posted to a chat or any other URL."""
