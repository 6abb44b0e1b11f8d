"""Commands kept to where they may work: bubblewrap or Landlock, or nothing runs."""
