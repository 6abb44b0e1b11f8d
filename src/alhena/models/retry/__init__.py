"""Retries of failed requests: classification, backoff and limits."""
