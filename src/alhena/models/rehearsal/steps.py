"""How steps are written: generators that yield calls, receive outcomes and return their report.

A conversation is replayed through them from its beginning for each request, so nothing needs to be
remembered between requests.
"""

from collections.abc import Generator, Sequence

from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

Steps = Generator[tuple[Call, ...], tuple[Outcome, ...], str]
"""The work for one intent; its return value is the paragraph of the answer."""

Asking = Generator[tuple[Call, ...], tuple[Outcome, ...], tuple[Outcome, ...]]


def ask(tools: Toolbox, *calls: Call) -> Asking:
    """One turn with these calls, made to fit their declarations; outcomes in the order of calls.
    Calls of tools that are not declared are not made."""
    made = tuple(tools.fitted(call) for call in calls if call.name in tools)
    answered = (yield made) if made else ()
    outcomes = iter(answered)
    return tuple(
        next(outcomes) if call.name in tools else Outcome(call, missing=True) for call in calls
    )


def side_by_side(
    running: Sequence[Steps],
) -> Generator[tuple[Call, ...], tuple[Outcome, ...], list[str]]:
    """Advances several steps together: each turn holds the next calls of all of them, a call that
    two of them want only once."""
    reports = [""] * len(running)
    waiting: dict[int, tuple[Call, ...]] = {}

    def advance(index: int, outcomes: tuple[Outcome, ...] | None) -> None:
        try:
            waiting[index] = (
                next(running[index]) if outcomes is None else running[index].send(outcomes)
            )
        except StopIteration as done:
            reports[index] = done.value

    for index in range(len(running)):
        advance(index, None)
    while waiting:
        turn: list[Call] = []
        for calls in waiting.values():
            turn.extend(call for call in calls if call not in turn)
        outcomes = yield tuple(turn)
        asked, waiting = waiting, {}
        for index, calls in asked.items():
            advance(index, tuple(outcomes[turn.index(call)] for call in calls))
    return reports
