"""From stored deliveries to handlers: routing, running, settling.

- `worker` is the loop. `looking` tells what it asks the store for, and `checks` what it checks once a second.
- Routing: `planning` asks by `fanout` which handlers want an event, and for its place by `lanes` and `holds`.
  `routing_trial` and `routing_watch` are for handlers whose conditions end or block a process.
- What is claimed: `claimed_work`, under `leases`, waits in `slots`. `lane_runs` has what follows in a lane.
- A call: `runner` makes it in the event loop, in `threads` or in a `process_pool`, within a `deadline` and the
  `memory_budget`. `contexts` has what the handler is given.
- Its end: `attempts` and `failures` describe it, `settling` records it, and `emit` tells programs.
- Beside the work: `schedules`, `retention`, `indexer`, `heartbeat`.
- Around the worker: `supervisor` starts it again, `succession` names it, and `exhaustion` ends it in time.
"""
