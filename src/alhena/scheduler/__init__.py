"""Runs tool calls, from the model's request to one response each: states, queue, confirmation,
execution."""
