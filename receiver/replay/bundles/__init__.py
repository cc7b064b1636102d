"""Bundles: files of deliveries, to be kept, shared, and imported elsewhere. `schema.json` describes them."""
