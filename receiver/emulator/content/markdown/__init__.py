"""From a tree of HTML to Markdown, by the service's rules (emulator facts, section 8)."""
