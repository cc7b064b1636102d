"""The webhooks that go out: what they hold, which are sent, when, and what became of them."""
