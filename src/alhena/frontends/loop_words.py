"""What is said to people of a model that goes in circles."""

from typing import assert_never

from alhena.events import LoopDetectedEvent


def loop_words(event: LoopDetectedEvent) -> str:
    """What was found, and what became of it."""
    whose = "The model seems" if event.role == "main" else "A subagent seems"
    ends = "the run ends" if event.role == "main" else "it ends"
    match event.action:
        case "corrected":
            then = "it was told so."
        case "ended":
            then = f"told so before, {ends}."
        case "ignored":
            then = "it goes on as you wish."
        case _:
            assert_never(event.action)
    return f"{whose} to go in circles: {event.detail}; {then}"


def is_news(event: LoopDetectedEvent) -> bool:
    """Whether it is said by nothing else: of a run that ends, its error says it."""
    return event.action != "ended" or event.role != "main"
