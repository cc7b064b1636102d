"""HTTP: the endpoint, health checks, and the server around them.

- `server` is uvicorn with `http_protocol`, which has more limits, and `direct_protocol`, which passes ASGI by.
- `endpoint` makes a `reception` of each request. The reception takes the body in, and `intake` checks the request
  and hands the delivery to a log.
- `health` and `metrics` are the other endpoints, `paths` finds each, and `replies` has all answers.
- `console` is an app of its own: the pages for people.
"""
