"""The HTTP/1.1 client: connecting, one exchange at a time, proxies."""
