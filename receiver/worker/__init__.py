"""From stored deliveries to handlers: routing, running, settling."""
