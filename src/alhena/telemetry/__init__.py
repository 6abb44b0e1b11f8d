"""What sessions did, as records and metrics in a file (TEL-01, TEL-02). Off unless asked for."""
