"""The looks of the terminal: themes, its background, the footer, the window's title."""
