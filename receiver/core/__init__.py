"""The words and the pure rules that every other room shares.

- `ports` says what a store has to do, one module for each caller.
- The records are in `deliveries`, `work`, `claims`, `jobs`, `quarantine`, `workers`, `schedules` and `bulk`. Their
  ids and states are in `types`.
- `work_states` is the table of how a work item changes, and `rules` decides. Other rules are in `retries`,
  `retention`, `attention`, `actions` and `cron`.
- From the bytes of a request to a delivery: `signing`, `envelope`, `envelope_fields`, `lenient_json`, `body_cost`.
- What users see: `views`, `subjects`, `search`, `activity`, `dead_letters`, `text`.
- What users write: `durations`, `moments`, `sizes`.
- How programs run: `clock`, `group_commit`, `event_loop`, `logs`, `log_lines`, `process_ends`.
"""
