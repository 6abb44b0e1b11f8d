"""Questions of servers to a person (elicitation): forms and links, in both revisions of the
protocol. A question always names its server, and its answer goes to that server only."""

import asyncio
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from math import isfinite
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from alhena.display_text import exact, one_line
from alhena.tools.builtin.ask_user import Answers, Ask, UnaskedError
from alhena.tools.contract import Question, QuestionOption
from alhena.wire.json_values import as_array, as_object, scrub

CREATE = "elicitation/create"
MAX_FIELDS = 30
MAX_OPTIONS = 200
MAX_MESSAGE = 2_000
MAX_LABEL = 200
MAX_WAITING = 5
"""Questions of one server that wait at a time; further ones are cancelled."""
ROUNDS = 3
"""Times that a person is asked for the fields whose values the form does not take."""
HIDDEN = "[hidden]"
MIN_SECRET = 3
"""Characters from which on an answer is hidden where a server repeats it."""
_SECRET = re.compile(
    r"pass ?(?:word|code|phrase)|passwd|\bpwd\b|\bpin\b|secret|token|credential|\bcvv\b|"
    r"(?:api|access|private|signing|encryption|ssh|licen[cs]e) ?key|^key$",
    re.IGNORECASE,
)
_ABSENT = object()

Wire = dict[str, Any]


class ElicitationReply(msgspec.Struct, frozen=True):
    """The answer for the server. `secrets` are values in it that are not to be recorded; `unasked`
    is the question, if there was no one to ask."""

    result: Wire
    secrets: tuple[str, ...] = ()
    unasked: str = ""


CANCELLED = ElicitationReply({"action": "cancel"})


class ServerQuestions:
    """Puts the questions of one server to the person that `ask` reaches, if there is one."""

    def __init__(self, server: str, ask: Ask | None) -> None:
        self.server = server
        self._ask = ask

    @property
    def answerable(self) -> bool:
        """True when someone can answer."""
        return self._ask is not None

    async def reply(self, params: Mapping[str, Any]) -> ElicitationReply:
        """Asks, and returns the answer in the words of the protocol."""
        message = one_line(_text(params, "message"), MAX_MESSAGE)
        if self._ask is None:
            return ElicitationReply({"action": "decline"}, unasked=message)
        try:
            return await self._put_question(self._ask, message, params)
        except UnaskedError:
            return ElicitationReply({"action": "decline"}, unasked=message)

    async def _put_question(
        self, ask: Ask, message: str, params: Mapping[str, Any]
    ) -> ElicitationReply:
        if params.get("mode") == "url":
            return await self._open_link(ask, message, _text(params, "url"))
        schema = as_object(params.get("requestedSchema")) or {}
        properties = as_object(schema.get("properties")) or {}
        required = as_array(schema.get("required")) or []
        if not properties:
            return await self._agree(ask, message)
        if len(properties) > MAX_FIELDS:
            return ElicitationReply(
                {"action": "decline"}, unasked=f"{message} ({len(properties)} fields)"
            )
        fields = [
            FormField(name, as_object(each) or {}, required=name in required)
            for name, each in properties.items()
        ]
        return await self._fill(ask, message, fields)

    def _opening(self, message: str) -> str:
        return f"The MCP server '{exact(self.server)}' asks: {exact(message)}"

    async def _open_link(self, ask: Ask, message: str, url: str) -> ElicitationReply:
        scheme, host = _scheme_and_host(url)
        if not host or scheme not in ("http", "https") or not url.isprintable():
            return ElicitationReply({"action": "decline"}, unasked=f"{message} (an invalid link)")
        warning = "" if scheme == "https" else " The link is not encrypted (http)."
        odd = not host.isascii() or "xn--" in host
        warning += " The name of its host has letters that may look like others." if odd else ""
        question = Question(
            question=f"{self._opening(message)} It wants you to open a page of the host {host}: "
            f"{exact(url)}{warning} If you agree, open it in your browser, then answer Yes.",
            header=f"Open {host}"[:MAX_LABEL],
            type="yesno",
            server=self.server,
        )
        return _consent_reply(await ask((question,)), {"action": "accept"})

    async def _agree(self, ask: Ask, message: str) -> ElicitationReply:
        question = Question(
            question=self._opening(message), header="Agree", type="yesno", server=self.server
        )
        return _consent_reply(await ask((question,)), {"action": "accept", "content": {}})

    async def _fill(self, ask: Ask, message: str, fields: "list[FormField]") -> ElicitationReply:
        content: Wire = {}
        problems: dict[str, str] = {}
        left = fields
        for _ in range(ROUNDS):
            opening = self._opening(message)
            asked = tuple(
                each.question(opening, self.server, problems.get(each.name, "")) for each in left
            )
            answers = await ask(asked)
            if answers is None:
                return CANCELLED
            problems.clear()
            for index, field in enumerate(left):
                try:
                    value = field.value(answers.get(index, ""))
                except ValueError as error:
                    problems[field.name] = str(error)
                else:
                    if value is not _ABSENT:
                        content[field.name] = value
            left = [each for each in left if each.name in problems]
            if not left:
                break
        if left:
            return CANCELLED
        secrets = [
            str(content[each.name]) for each in fields if each.secret and each.name in content
        ]
        return ElicitationReply(
            {"action": "accept", "content": content}, tuple(filter(None, secrets))
        )


def _consent_reply(answers: Answers | None, accepted: Wire) -> ElicitationReply:
    if answers is None:
        return CANCELLED
    agreed = answers.get(0, "").strip().casefold() in ("yes", "y", "true")
    return ElicitationReply(accepted if agreed else {"action": "decline"})


class FormField:
    """One field of a form: its question, and the value of an answer."""

    def __init__(self, name: str, schema: Wire, *, required: bool) -> None:
        self.name = name
        self._schema = schema
        self._required = required
        kind = schema.get("type")
        self._kind = kind if isinstance(kind, str) else "string"
        self._title = one_line(_text(schema, "title") or name, MAX_LABEL)
        about = " ".join((name, _text(schema, "title"), _text(schema, "description")))
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", about)
        marked = schema.get("writeOnly") is True or schema.get("format") == "password"
        self._choices = _choices(schema)
        free = self._kind in ("string", "number", "integer") and not self._choices
        self.secret = free and (marked or _SECRET.search(spaced) is not None)

    def question(self, opening: str, server: str, problem: str) -> Question:
        """The question of a server, with the problem of the answer before."""
        parts = [opening, f"{self._title}:" if problem else self._title]
        if problem:
            parts.append(f"{problem}.")
        if description := one_line(_text(self._schema, "description"), MAX_MESSAGE):
            parts.append(f"({exact(description)})")
        limits = [*self._limits()]
        if limits:
            parts.append(f"[{', '.join(limits)}]")
        if self.secret:
            parts.append("This looks like a password or key: answer only if you trust the server.")
        options = tuple(QuestionOption(label=label) for label in self._choices)
        kind = "choice" if options else "yesno" if self._kind == "boolean" else "text"
        return Question(
            question=" ".join(parts),
            header=self._title,
            type=kind,
            options=options,
            multi_select=self._kind == "array",
            placeholder="" if self.secret else ", ".join(limits),
            server=server,
            secret=self.secret,
        )

    def value(self, answer: str) -> Any:
        """The value of an answer, the default for none. Raises ValueError with the problem."""
        text = scrub(answer) if self.secret else scrub(answer).strip()
        if not text:
            if "default" in self._schema:
                return self._schema["default"]
            if self._kind == "array" and not self._required:
                return _ABSENT
            if self._required:
                raise ValueError("an answer is required")
            return _ABSENT
        if self._choices:
            return self._read_choice(text)
        return _READ.get(self._kind, _read_text)(text, self._schema)

    def _read_choice(self, text: str) -> Any:
        if self._kind != "array":
            if text in self._choices:
                return self._choices[text]
            if text in self._choices.values():
                return text
            raise ValueError("it has to be one of the choices")
        found: list[str] = []
        rest = text
        labels = sorted(
            {**self._choices, **{each: each for each in self._choices.values()}}, key=len
        )
        while rest:
            label = next(
                (each for each in reversed(labels) if rest == each or rest.startswith(f"{each},")),
                None,
            )
            if label is None:
                raise ValueError("it has to be some of the choices, with commas between them")
            found.append(self._choices.get(label, label))
            rest = rest[len(label) :].lstrip(", ")
        _require_size(len(found), self._schema, ("minItems", "maxItems"), "choices")
        return found

    def _limits(self) -> Iterator[str]:
        schema = self._schema
        if not self._required:
            yield "optional"
        words = {"number": "a number", "integer": "a whole number"}
        if self._kind in words:
            yield words[self._kind]
        elif isinstance(schema.get("format"), str):
            yield one_line(schema["format"], MAX_LABEL)
        for key, words_of in _LIMITS.items():
            if key in schema:
                yield f"{words_of} {one_line(str(schema[key]), MAX_LABEL)}"
        if "default" in schema and not self.secret:
            default = _describe_value(schema["default"], self._choices)
            yield f"default {one_line(default, MAX_LABEL)}"


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters: at least",
    "maxLength": "characters: at most",
    "minItems": "choices: at least",
    "maxItems": "choices: at most",
    "pattern": "pattern",
}


def _describe_value(value: object, choices: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_describe_value(each, choices) for each in cast("list[object]", value))
    return next((label for label, each in choices.items() if each == value), str(value))


def _choices(schema: Wire) -> dict[str, str]:
    """The choices of a field: label -> value."""
    given = as_object(schema.get("items")) or {} if schema.get("type") == "array" else schema
    titled = as_array(given.get("oneOf")) or as_array(given.get("anyOf")) or []
    pairs = [
        (_text(each, "title"), each["const"])
        for each in map(as_object, titled)
        if each is not None and isinstance(each.get("const"), str)
    ]
    if not pairs:
        values = [each for each in as_array(given.get("enum")) or [] if isinstance(each, str)]
        names = as_array(given.get("enumNames")) or []
        titles = [*(each if isinstance(each, str) else "" for each in names), *[""] * len(values)]
        pairs = list(zip(titles, values, strict=False))
    found: dict[str, str] = {}
    for title, value in pairs[:MAX_OPTIONS]:
        label = one_line(title or value, MAX_LABEL)
        found[label if label not in found else f"{label} ({one_line(value, MAX_LABEL)})"] = value
    return found


def _read_text(text: str, schema: Wire) -> str:
    _require_size(len(text), schema, ("minLength", "maxLength"), "characters")
    form = _text(schema, "format")
    try:
        if form == "date":
            date.fromisoformat(text)
        elif form == "date-time":
            datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"it is not a {form} such as {_EXAMPLES[form]}") from None
    if form == "email" and not re.fullmatch(r"[^@\s]+@[^@\s]+", text):
        raise ValueError("it is not an email address")
    if form == "uri" and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:\S", text):
        raise ValueError("it is not a URI such as https://example.com")
    return text


_EXAMPLES = {"date": "2026-11-29", "date-time": "2026-11-29T10:00:00Z"}


def _read_number(text: str, schema: Wire) -> int | float:
    whole = schema.get("type") == "integer"
    try:
        value = int(text) if re.fullmatch(r"[+-]?\d{1,300}", text) else float(text)
    except ValueError:
        raise ValueError(f"it is not a {'whole ' if whole else ''}number") from None
    if whole and not isinstance(value, int):
        raise ValueError("it is not a whole number")
    if not isfinite(value):
        raise ValueError("it is not a number")
    _require_size(value, schema, ("minimum", "maximum"), "")
    return value


def _read_bool(text: str, _schema: Wire) -> bool:
    word = text.casefold()
    if word in ("yes", "y", "true", "no", "n", "false"):
        return word in ("yes", "y", "true")
    raise ValueError("it has to be yes or no")


_READ: dict[str, Callable[[str, Wire], Any]] = {
    "number": _read_number,
    "integer": _read_number,
    "boolean": _read_bool,
}


def _require_size(size: float, schema: Wire, keys: tuple[str, str], what: str) -> None:
    low, high = (schema.get(key) for key in keys)
    unit = f" {what}" if what else ""
    if isinstance(low, int | float) and size < low:
        raise ValueError(f"it has to be at least {low:g}{unit}")
    if isinstance(high, int | float) and size > high:
        raise ValueError(f"it may be at most {high:g}{unit}")


def _scheme_and_host(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:
        return "", ""


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def without_values(value: Any, secrets: frozenset[str]) -> Any:
    """A result without these values, which a server may repeat."""
    if not secrets:
        return value
    if isinstance(value, int | float) and str(value) in secrets:
        return HIDDEN
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {key: without_values(each, secrets) for key, each in given.items()}
    if isinstance(value, list):
        return [without_values(each, secrets) for each in cast("list[Any]", value)]
    return value


class OpenCall(msgspec.Struct, eq=False):
    """A request to a server during which it may ask: its timeout, which questions suspend, and the
    questions that no one could answer."""

    timeout_s: float
    patience: asyncio.Timeout | None = None
    unasked: list[str] = []

    def note(self, server: str) -> str:
        """Says what a server asked and no one answered; "" if there was nothing."""
        asked = "; ".join(f"“{exact(each)}”" for each in dict.fromkeys(self.unasked))
        if not asked:
            return ""
        return (
            f"[The MCP server '{exact(server)}' asked the user: {asked}. No one could answer, so "
            "it was declined.]"
        )


class ConnectionQuestions:
    """The questions of one connection while requests are under way. They end with the requests.
    `secrets` are values that were answered and are not to be recorded."""

    def __init__(self, questions: ServerQuestions) -> None:
        self.questions = questions
        self.secrets: frozenset[str] = frozenset()
        self._calls: list[OpenCall] = []
        self._open: set[asyncio.Task[ElicitationReply]] = set()

    @property
    def crowded(self) -> bool:
        """True when no further question is taken."""
        return len(self._open) >= MAX_WAITING

    @contextmanager
    def during(self, call: OpenCall) -> Generator[None]:
        """Takes questions while this request is under way."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            if not self._calls:
                for task in self._open:
                    task.cancel()

    @property
    def waits(self) -> bool:
        """True while a person is asked."""
        return bool(self._open)

    async def answer_unsolicited(self, params: Mapping[str, Any]) -> Wire:
        """The answer to a question that came by itself, for any of the requests under way."""
        calls = tuple(self._calls)
        if not calls or self.crowded:
            return {"action": "decline" if not calls else "cancel"}
        return await self.put(params, calls)

    async def put(self, params: Mapping[str, Any], calls: Iterable[OpenCall]) -> Wire:
        """Asks for these requests; none under way times out meanwhile."""
        task = asyncio.ensure_future(self.questions.reply(params))
        self._open.add(task)
        self._reschedule()
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._open.discard(task)
            self._reschedule()
        reply = CANCELLED if task.cancelled() else task.result()
        self.secrets |= {each for each in reply.secrets if len(each) >= MIN_SECRET}
        if reply.unasked:
            for call in calls:
                call.unasked.append(reply.unasked)
        return reply.result

    def _reschedule(self) -> None:
        now = asyncio.get_running_loop().time()
        for call in self._calls:
            patience = call.patience
            if patience is not None and not patience.expired():
                patience.reschedule(None if self._open else now + call.timeout_s)
