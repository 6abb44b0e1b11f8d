"""Why a table is no rule."""


class RuleError(Exception):
    """A table that is no rule: the field, what is wrong with it, and what to do."""

    def __init__(self, field: str, message: str, remedy: str) -> None:
        super().__init__(f"{field}: {message}. {remedy}")
        self.field = field
        self.message = message
        self.remedy = remedy
