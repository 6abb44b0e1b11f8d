"""The limits of runs and sessions: turns, tokens, time, money; the errors that end a run there."""
