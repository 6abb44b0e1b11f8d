"""What is said to people of a conversation that was shortened."""

from alhena.events import CompressedEvent, OutputsMaskedEvent

FAILED = {
    "failed_inflated": "a summary would not be shorter.",
    "failed_empty_summary": "the model gave no summary.",
    "failed_request": "no summary could be had:",
}
"""Statuses of attempts that changed nothing, and why."""


def compressed_words(event: CompressedEvent) -> str:
    """What became of an attempt to shorten the conversation, in a sentence or two."""
    whose = "The conversation" if event.role == "main" else "A subagent's conversation"
    sizes = f"about {event.original_tokens:,} to {event.new_tokens:,} tokens"
    match event.status:
        case "compressed":
            return f"{whose} was compressed, from {sizes}."
        case "content_truncated":
            return f"{whose} did not fit any more; old parts of it were left out, from {sizes}."
        case "noop":
            return "There is nothing to compress yet."
        case _:
            why = f"{FAILED.get(event.status, event.status)} {event.reason}".strip()
            return f"{whose} was not compressed: {why}"


def is_loss(event: CompressedEvent) -> bool:
    """Whether a person should be told of it wherever there is a place for that."""
    return event.status != "compressed"


def masked_words(event: OutputsMaskedEvent) -> str:
    """Which results the model does not have whole any more."""
    one = event.results == 1
    what = "old tool result" if one else "old tool results"
    where = "it is" if one else "they are"
    return f"Of {event.results} {what} the model has a preview from here on; {where} kept on disk."
