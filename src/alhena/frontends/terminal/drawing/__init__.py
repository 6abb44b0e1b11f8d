"""The content of the screen as lines: the view, Markdown, ended calls, menus."""
