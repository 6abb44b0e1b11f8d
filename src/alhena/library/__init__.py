"""The front door for programs: `Agent`, its options, runs and results."""
