"""HTTP: the endpoint, health checks, and the server around them.

- `server` is uvicorn with our own `protocol`, which has limits and hands webhooks to `reception` without ASGI.
- `reception` takes the body of a request in, and `intake` checks it and hands the delivery to a log.
- `health` and `metrics` are the other endpoints, `paths` finds each, and `replies` has all answers.
- `console` is an app of its own: the pages for people.
"""
