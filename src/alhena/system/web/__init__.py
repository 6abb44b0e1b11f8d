"""Reading public web pages: which addresses may be reached, one guarded GET, HTML as text."""
