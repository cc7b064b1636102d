"""A real browser: Chromium, which renders pages, acts on them and takes pictures, within the rules of fetching."""
