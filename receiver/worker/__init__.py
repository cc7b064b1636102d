"""From stored deliveries to handlers: routing, running, settling.

- `worker` is the loop, and `work_in_hand` owns what it has claimed: ready queues, `leases` and followers.
- `claiming` decides what to ask the store for. `routing` makes work items of new deliveries and their `events`,
  and `trial` is for handlers whose filters end or block a process.
- `calls` call handlers: in the event loop, in threads, in processes. `attempts` describe how calls end, and
  `settling` records it. `upkeep` is everything beside that.
"""
