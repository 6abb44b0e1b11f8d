"""Telemetry of a session: log records and metrics in a file (TEL-01, TEL-02). Off by default."""
