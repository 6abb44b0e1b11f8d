"""What is said to a model that goes in circles, and to one that is asked whether another does."""

from pathlib import Path

_PROMPTS = Path(__file__).parent / "prompts"


def loop_note(detail: str) -> str:
    """The words for the model that was found in a loop. `detail` says what is repeated."""
    return _text("loop").replace("${detail}", detail)


def loop_question() -> str:
    """The question behind a stretch of a conversation: does it get anywhere?"""
    return _text("loop_check")


def _text(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8").rstrip()
