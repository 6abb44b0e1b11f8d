"""The text that a run comes to."""

from alhena.events import ApiRequestEvent, ContentEvent, Event, ModelFallbackEvent, RetryEvent


class LastText:
    """The text of the last model turn, from the events. What was taken back is none of it."""

    def __init__(self) -> None:
        self.value = ""

    def feed(self, event: Event) -> None:
        """Takes an event; a request begins a new turn."""
        if isinstance(event, ContentEvent):
            self.value += event.text
        elif isinstance(event, ApiRequestEvent):
            if event.role == "main":  # what tools and subagents ask is no turn of the session's
                self.value = ""
        elif isinstance(event, RetryEvent | ModelFallbackEvent) and event.retract:
            self.value = ""
