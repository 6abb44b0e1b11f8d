"""What is said to people of a conversation that was shortened."""

from alhena.events import CompressedEvent, OutputsMaskedEvent

FAILED = {
    "failed_inflated": "the summary is no shorter than what it stands for.",
    "failed_empty_summary": "the model returned no summary.",
    "failed_request": "the request for a summary failed:",
}
"""Statuses of attempts that changed nothing, and why."""


def compressed_words(event: CompressedEvent) -> str:
    """What became of an attempt to shorten the conversation, in a sentence or two."""
    whose = "Chat history" if event.role == "main" else "A subagent's chat history"
    sizes = f"from {event.original_tokens:,} to {event.new_tokens:,} tokens"
    match event.status:
        case "compressed":
            return f"{whose} compressed {sizes}."
        case "content_truncated":
            return f"{whose} did not fit any more; old parts of it were left out, {sizes}."
        case "noop":
            return "Nothing to compress."
        case _:
            why = f"{FAILED.get(event.status, event.status)} {event.reason}".strip()
            return f"{whose} compression failed: {why}"


def is_loss(event: CompressedEvent) -> bool:
    """Whether a person should be told of it wherever there is a place for that."""
    return event.status != "compressed"


def masked_words(event: OutputsMaskedEvent) -> str:
    """Which results the model does not have whole any more."""
    one = event.results == 1
    what = "old tool result" if one else "old tool results"
    where = "it is" if one else "they are"
    return f"Of {event.results} {what} the model has a preview from here on; {where} kept on disk."
