"""Typed messages between the scheduler, the policy and whoever can answer a question."""
