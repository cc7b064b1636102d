"""The ports of a store, one module for each caller; `Store` opens them."""
