"""The records and the pure rules that every other room shares.

- `ports` says what a store must do, one module for each caller.
- The records are in `deliveries`, `work`, `claims`, `jobs`, `schedules`, `recorded_actions` and `bulk`; their ids
  and states are in `types`.
- `work_states` is the table of how a work item changes, and `rules` decides. Other rules are in `retries`,
  `attention`, `choosing`, `activity` and `cron`.
- From the bytes of a request to a delivery: `signing`, `envelope`, `body_cost`, `batches`.
- What users see and write: `views`, `subjects`, `text`, `guide`, `units`, `addresses`. The time: `clock`.
"""
