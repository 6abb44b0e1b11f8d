"""What is wrong with a request or an answer in another dialect."""

from alhena.wire.errors import WireError


class DialectError(WireError):
    """A request or an answer that its dialect does not allow, or that Gemini has no form for.

    `path` is the place, such as `messages[2].content[0].id`.
    """

    kind = "bad_request"

    def __init__(self, message: str, path: str = "", *, remedy: str | None = None) -> None:
        super().__init__(f"{path}: {message}" if path else message, remedy=remedy)
        self.path = path


class UnusableAnswerError(DialectError):
    """The model's answer ended in a way that the dialect has no word for; asking again may help."""

    kind = "unusable_answer"
