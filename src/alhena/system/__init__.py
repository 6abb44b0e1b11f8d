"""The machine: files, processes, ignore rules, search."""
