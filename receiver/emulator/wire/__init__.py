"""From the JSON of a request to a plan: every field, default, limit and allowed value of both versions."""
