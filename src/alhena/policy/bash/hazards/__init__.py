"""Arguments that add authority: tables of programs, and one walk over the arguments of a call."""
