"""The other side of the wire: the client, its responses, samples, the sender and the simulator."""
