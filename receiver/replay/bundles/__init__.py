"""Bundles: deliveries in a file, to be kept, shared, and brought in elsewhere. `schema.json` describes them."""
