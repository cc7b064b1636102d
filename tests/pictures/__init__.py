"""The pictures that the README and the guide show: `python -m tests.pictures [NAME ...]` makes them again.

    console    the overview and one delivery, from a receiver with made deliveries; needs Chromium
    outage     what an outage costs, by `receiver simulate --svg`
    states     the states of a work item, from the table of `receiver.core.work_states`; needs Graphviz
    way        the way of a delivery
    demo       what `receiver demo` says, as a terminal shows it

`python -m tests.benchmarks.picture` draws the speed, from the figures of a benchmark.
"""
