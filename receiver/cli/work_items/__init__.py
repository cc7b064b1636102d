"""`receiver work-items`: look at work items and act on them."""
