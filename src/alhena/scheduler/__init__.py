"""From a model's call to its one response: states, transitions, queue, confirmation, execution."""
