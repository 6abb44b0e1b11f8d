"""What bash would run: command lines read as values, by the rules of bash."""
