"""How scheduled runs are told from deliveries of a sender: their type and their keys."""

RUN_FAMILY = "schedule."
RUN_TYPE = "schedule.run"
"""The type of a scheduled run, where events have theirs."""
RUN_KEY_PREFIX = "every:"
"""How the keys of scheduled runs begin. No delivery of a sender gets such a key."""
