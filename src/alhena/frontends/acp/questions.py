"""Questions for a client: about calls, and those of the model, in one form or one by one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, assert_never, cast

from alhena.display_text import one_line
from alhena.frontends.acp.connection import Connection, RpcError
from alhena.frontends.acp.updates import CallUpdates, options
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.tools.builtin.ask_user import Answers, UnaskedError
from alhena.tools.contract import Question
from alhena.tools.contract import ToolConfirmationOutcome as Outcome

IN_CHAT = "The user answers in the chat: end your turn with this question."
_LONGEST = 400


class AskingSession(Protocol):
    """The session whose questions are put to a client."""

    session_id: str
    cancelled: bool
    calls: CallUpdates

    def update(self, update: dict[str, Any]) -> None:
        """Sends an update of the session."""
        ...

    def warn(self, text: str) -> None:
        """Shows a warning."""
        ...


class Questions:
    """Puts questions of one session to its client."""

    def __init__(
        self, session: AskingSession, connection: Connection, client: Mapping[str, Any]
    ) -> None:
        self._session = session
        self._connection = connection
        forms = client.get("elicitation")
        self._forms = isinstance(forms, dict) and "form" in forms
        self._turn = asyncio.Lock()
        self._open: set[asyncio.Future[Any]] = set()

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Asks the client for something of this session, until the prompt is cancelled. Raises
        RpcError and CancelledError."""
        asking = asyncio.ensure_future(
            self._connection.ask(method, {"sessionId": self._session.session_id, **params})
        )
        self._open.add(asking)
        try:
            return await asking
        finally:
            self._open.discard(asking)
            asking.cancel()

    def withdraw(self) -> None:
        """Ends every question that is open."""
        for question in tuple(self._open):
            question.cancel()

    async def approve(self, request: ConfirmationRequest) -> Answer:
        """Asks about a call. An answer that was not offered refuses it, as the offered refusal."""
        session = self._session
        if session.cancelled:
            return Answer.no(stop=True)
        call, offered = session.calls.describe_request(request), options(request)
        session.update({"sessionUpdate": "tool_call_update", **call})
        try:
            chosen = await self._permission(call, offered)
        except RpcError:
            return Answer.no("The client could not ask the user.")
        if chosen is None:
            return Answer.no(stop=True)
        known = [each["optionId"] for each in offered]
        if chosen not in known or chosen == Outcome.CANCEL:
            return Answer.no()
        return Answer(Outcome(chosen))

    async def put(self, questions: tuple[Question, ...]) -> Answers | None:
        """Puts questions of the model or a server, in one form where the client has forms; None
        when they are dismissed. Raises UnaskedError."""
        async with self._turn:
            try:
                if self._forms:
                    result = await self._ask_until_cancelled("elicitation/create", form(questions))
                    return form_answers(result, len(questions))
                return await self._put_singly(questions)
            except RpcError as error:
                self._session.warn(f"The question was not asked: {error}")
                if questions[0].server:
                    raise UnaskedError("the editor could not ask.") from error
                return None

    async def _put_singly(self, questions: tuple[Question, ...]) -> Answers | None:
        answers: dict[int, str] = {}
        session = self._session
        for index, question in enumerate(questions):
            if question.server and question.type == "text":
                raise UnaskedError("this editor has no forms.")  # the chat is the model's
            call = session.calls.question(question)
            session.update({"sessionUpdate": "tool_call", **call})
            offered, known = choices(question)
            answer: str | None = None
            try:
                answer = known.get(await self._permission(call, offered) or "")
            finally:
                session.update(session.calls.end_question(call["toolCallId"], answer))
            if answer is None:
                return None
            answers[index] = answer
        return answers

    async def _permission(self, call: dict[str, Any], offered: list[dict[str, Any]]) -> str | None:
        """The option that is chosen; None for a question that is withdrawn. Raises RpcError."""
        params = {"toolCall": call, "options": offered}
        match await self._ask_until_cancelled("session/request_permission", params):
            case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
                return option
            case _:
                return None

    async def _ask_until_cancelled(self, method: str, params: dict[str, Any]) -> Any:
        """The answer of the client; None for a question that is withdrawn. Raises RpcError."""
        question = asyncio.create_task(self.ask(method, params))
        try:
            await asyncio.wait({question})
        finally:
            question.cancel()
        return None if question.cancelled() or self._session.cancelled else question.result()


def form(questions: Sequence[Question]) -> dict[str, Any]:
    """The parameters of `elicitation/create`: a field for each question, and one for an answer in
    other words behind each choice."""
    fields: dict[str, Any] = {}
    for index, question in enumerate(questions):
        field: dict[str, Any] = {"title": question.header, "description": question.question}
        shown = _choices(question)
        titles = distinct_words([title for _, title in shown])
        named = [
            {"const": each, "title": title} for (each, _), title in zip(shown, titles, strict=True)
        ]
        match question.type:
            case "text":
                fields[str(index)] = {"type": "string", **field}
            case "choice" | "yesno" if question.multi_select:
                fields[str(index)] = {"type": "array", **field, "items": {"anyOf": named}}
            case "choice" | "yesno":
                fields[str(index)] = {"type": "string", **field, "oneOf": named}
            case _:
                assert_never(question.type)
        if question.type == "choice" and not question.server:
            other = {"title": "Something else", "description": "In your own words"}
            fields[f"{index}_other"] = {"type": "string", **other}
    schema = {"type": "object", "properties": fields}
    message = "\n".join(one_line(each.question, _LONGEST) for each in questions)
    return {"mode": "form", "message": message, "requestedSchema": schema}


def form_answers(result: object, count: int) -> dict[int, str] | None:
    """The answers in a form that was sent back; None when it was dismissed."""
    match result:
        case {"action": "accept"}:
            content = cast("dict[str, object]", result).get("content")
        case _:
            return None
    given = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    answers = {index: _words(given, str(index)) for index in range(count)}
    return {index: text for index, text in answers.items() if text}


def choices(question: Question) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """The options of a permission request for a question, and the answer of each."""
    shown = _choices(question)
    if not question.server:
        shown.append((IN_CHAT, "Answer in the chat"))
    answers = {str(number): answer for number, (answer, _) in enumerate(shown)}
    titles = distinct_words([*(title for _, title in shown), "Dismiss"])
    options = [
        {"optionId": str(number), "name": title, "kind": "allow_once"}
        for number, title in enumerate(titles[:-1])
    ]
    return [*options, {"optionId": "dismiss", "name": titles[-1], "kind": "reject_once"}], answers


def distinct_words(titles: Sequence[str]) -> list[str]:
    """The titles, numbered where one is there already, to tell the options apart."""
    found: list[str] = []
    for title in titles:
        number, name = 1, title
        while name in found:
            number += 1
            name = f"{title} ({number})"
        found.append(name)
    return found


def _choices(question: Question) -> list[tuple[str, str]]:
    """The answers to choose from, each with the text for its option."""
    if question.type == "yesno":
        return [("Yes", "Yes"), ("No", "No")]
    return [
        (each.label, one_line(": ".join(filter(None, (each.label, each.description))), _LONGEST))
        for each in question.options
    ]


def _words(given: Mapping[str, object], key: str) -> str:
    texts: list[object] = []
    for each in (given.get(key), given.get(f"{key}_other")):
        texts += cast("list[object]", each) if isinstance(each, list) else [each or ""]
    return ", ".join(str(each) for each in texts if str(each).strip())
