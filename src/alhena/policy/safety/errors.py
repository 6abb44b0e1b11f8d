"""Why a checker has no answer."""


class CheckerError(Exception):
    """A safety checker cannot be found, cannot be run, or gave no valid answer; the text says why.
    Whoever asked it has to take that as a denial."""
