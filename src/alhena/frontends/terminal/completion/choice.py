"""The choice in an open list of completions."""

from prompt_toolkit.buffer import Buffer


def take_completion(buffer: Buffer, *, later: bool = False) -> bool:
    """Takes the highlighted line of an open list; False when there is none, or the word was
    complete. `later`: then the next line that changes something is taken."""
    state = buffer.complete_state
    if state is None or not state.completions:
        return False
    at = state.complete_index or 0
    for each in state.completions[at:] if later else state.completions[at : at + 1]:
        begun = buffer.document.text_before_cursor[each.start_position or None :]
        if each.text.rstrip(" ") != (begun if each.start_position else ""):
            buffer.apply_completion(each)
            return True
    buffer.cancel_completion()
    return False


def move_in_list(buffer: Buffer, step: int) -> None:
    """Highlights another line of an open list; the text stays."""
    state = buffer.complete_state
    if state is not None and state.completions:
        state.go_to_index(((state.complete_index or 0) + step) % len(state.completions))
