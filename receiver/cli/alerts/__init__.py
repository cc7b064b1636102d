"""`receiver alerts`: what alerts would tell, and whether they arrive."""
