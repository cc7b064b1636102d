"""How a worker calls handlers: in its event loop, in threads, in processes."""
