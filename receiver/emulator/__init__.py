"""The service itself on one's own machine: it fetches pages, runs jobs and monitors, and sends signed webhooks.

It implements the API of the interface specification, versions 1 and 2. It needs the extra `emulator`.
Only the commands `emulate`, `demo` and `check`, and `receiver.testing`, import it: a contract in pyproject.toml
keeps it so.
"""
