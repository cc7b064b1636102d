"""Who calls and what they may do: keys, credits, rate limits, idempotency keys, threat protection."""
