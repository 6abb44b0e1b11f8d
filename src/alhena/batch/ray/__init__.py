"""The engine of a Ray cluster: the head, the driver process, and the parts on the nodes."""
