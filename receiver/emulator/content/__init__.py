"""From the bytes of a page to what a scrape returns: cleaned HTML, Markdown, links, images and metadata. No I/O."""
