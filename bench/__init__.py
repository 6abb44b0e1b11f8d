"""What `make bench` measures: each figure as a ratio to a baseline run beside it."""
