"""Reads public web pages: address checks, guarded GET requests, HTML as text."""
