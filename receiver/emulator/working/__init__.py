"""Work on pages that may take long: small pieces in threads, all others in processes that can be ended."""
