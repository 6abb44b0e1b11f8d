"""Reads a hook's output and exit status, and combines the outputs of several hooks. Pure.

The forms are the reference's. What the hook answers (decision, continue, reason) is read first and
leniently: a "no" counts whatever else is wrong with the output. The rest is read strictly: JSON
that is not an object, or has a value of the wrong type, is a failure; an exit code of 2 or more
blocks whatever the JSON says, unless that blocks or stops itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, assert_never, cast

import msgspec

from alhena.hooks.inputs import LlmRequest, LlmResponse
from alhena.hooks.model import (
    ANSWER_LIMIT,
    OUTPUT_LIMIT,
    SILENT,
    HookEvent,
    HookRun,
    HookVerdict,
    TailCall,
)

MESSAGE_LIMIT = 10_000
"""Maximum characters of a reason or a message for people."""

CONTEXT_LIMIT = 200_000
"""Maximum characters of a context for the model."""

NO_REASON = "No reason provided"


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of one run of a hook. `failure` is the reason why it failed or is unreadable;
    `verdict` is its verdict in spite of that."""

    verdict: HookVerdict
    failure: str = ""


class _ToolConfig(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    mode: Literal["AUTO", "ANY", "NONE"] | None = None
    allowed_function_names: list[str] | None = None


class _TailCall(msgspec.Struct, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _ToolResponse(msgspec.Struct, frozen=True, rename="camel"):
    llm_content: str | dict[str, Any] | list[Any]


class _Specific(msgspec.Struct, frozen=True):
    """`hookSpecificOutput`. The permission fields are those of Claude's hooks."""

    additional_context: str | None = msgspec.field(default=None, name="additionalContext")
    tool_input: dict[str, Any] | None = None
    tool_response: _ToolResponse | None = None
    llm_request: LlmRequest | None = None
    llm_response: LlmResponse | None = None
    tool_config: _ToolConfig | None = msgspec.field(default=None, name="toolConfig")
    clear_context: bool | None = msgspec.field(default=None, name="clearContext")
    tail_call: _TailCall | None = msgspec.field(default=None, name="tailToolCallRequest")
    permission: Literal["allow", "deny", "ask"] | None = msgspec.field(
        default=None, name="permissionDecision"
    )
    permission_reason: str | None = msgspec.field(default=None, name="permissionDecisionReason")


class _Output(msgspec.Struct, frozen=True, rename="camel"):
    go_on: bool | None = msgspec.field(default=None, name="continue")
    stop_reason: str | None = None
    suppress_output: bool | None = None
    system_message: str | None = None
    decision: Literal["allow", "approve", "ask", "block", "deny"] | None = None
    reason: str | None = None
    hook_specific_output: _Specific | None = None


class _ParsedOutput(msgspec.Struct, frozen=True):
    """The parsed output, or else a plain `text`; `wrong` is the reason why it is neither."""

    output: _Output | None = None
    text: str = ""
    wrong: str = ""


def interpret(event: HookEvent, run: HookRun) -> HookAnswer:
    """Interprets a run of a hook of `event`."""
    read = _read(run)
    given = _find_answer(run)
    said = _verdict(event, given, read.output or _Output())
    if run.is_cut and not given.rank and event in _GUARDING:
        said = msgspec.structs.replace(said, block=_describe_cut(run))
    decided = said.stop is not None or said.block is not None
    if run.problem:
        return HookAnswer(verdict=said if decided or said.ask else SILENT, failure=run.problem)
    if run.exit_code == 0:
        if read.text:
            shown = (clip_text(read.text, MESSAGE_LIMIT),)
            said = msgspec.structs.replace(said, system_messages=shown)
        return HookAnswer(verdict=said, failure=read.wrong)
    if run.exit_code == 1:
        settled = read.output is not None and bool(decided or given.decision)
        failure = "" if settled else _with_text("it exited with code 1", read, run)
        return HookAnswer(verdict=said, failure=failure)
    if decided:
        return HookAnswer(verdict=said)
    if event is HookEvent.SESSION_START:
        # Many only look around, and fail where there is nothing to see: `git log` without commits.
        failure = _with_text(f"it exited with code {run.exit_code}", read, run)
        return HookAnswer(verdict=said, failure=failure)
    reason = _blocking_reason(run, read)
    return HookAnswer(verdict=msgspec.structs.replace(said, block=reason, ask=False, reason=""))


class _Given(msgspec.Struct):
    """The answer in one JSON object: `decision` is "deny", "ask", "allow" or "" without one."""

    decision: str = ""
    stops: bool = False
    stop_reason: str = ""
    reason: str = ""
    permission_reason: str = ""

    @property
    def rank(self) -> int:
        """Its strictness."""
        return _RANKS["stop" if self.stops else self.decision]

    def take(self, key: str, value: str) -> None:
        """Reads one field."""
        name, value = _letters(without_escapes(key)), without_escapes(value)
        if name in ("decision", "permissiondecision"):
            found = _DECISIONS.get(_letters(value), "")
            self.decision = max(self.decision, found, key=_RANKS.__getitem__)
        elif name == "continue":
            self.stops = self.stops or value.strip().lower() in _FALSE
        elif name == "stopreason":
            self.stop_reason = self.stop_reason or value
        elif name == "reason":
            self.reason = self.reason or value
        elif name == "permissiondecisionreason":
            self.permission_reason = self.permission_reason or value


_RANKS = {"": 0, "allow": 1, "ask": 2, "deny": 3, "stop": 4}
_FALSE = ("false", "no", "0", "0.0", "off")
_DECISIONS = {
    **dict.fromkeys(("allow", "allowed", "approve", "approved"), "allow"),
    "ask": "ask",
    **dict.fromkeys(
        ("deny", "denied", "block", "blocked", "reject", "rejected", "refuse", "refused"), "deny"
    ),
    **dict.fromkeys(("no", "false"), "deny"),
}

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*+"?'
    r"|(?<=[{\[:,\s])'(?:\\.|[^'\\\n])*+'(?=\s*[:,}\]])"  # as Python prints a dict
    r"|[{}\[\]:,]"
    r'|[^\s{}\[\]:,"]+'
)


def _letters(text: str) -> str:
    return "".join(each for each in text.lower() if each.isalpha())


_GUARDING = frozenset(
    {
        *(HookEvent.BEFORE_AGENT, HookEvent.BEFORE_MODEL, HookEvent.BEFORE_TOOL_SELECTION),
        *(HookEvent.AFTER_MODEL, HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL),
    }
)
"""Events whose hooks let something pass: a refusal may be in a part of the output that is cut."""


def _describe_cut(run: HookRun) -> str:
    written = max(run.stdout_bytes, run.stderr_bytes)
    return (
        f"the hook wrote {written} bytes, of which {ANSWER_LIMIT} were searched for its answer; a "
        "refusal may be in the rest. Write less, with the answer first"
    )


def _find_answer(run: HookRun) -> _Given:
    """The strictest answer in a hook's output, or without one there, in its error output."""
    for data in (run.stdout, run.stderr):
        # Without NULs, UTF-16 reads as ASCII.
        text = without_escapes(data.decode("utf-8", "replace").replace("\0", ""))
        answers = list(_answers(text))
        found = max(answers, key=lambda each: each.rank, default=_Given())
        refusal = None if found.rank or _is_json(text) else _LOOSE_REFUSAL.search(text)
        if refusal is not None:
            found.take("decision", refusal[1])
        if found.rank:
            return found
    return _Given()


_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[(-/]?."
)
_LOOSE_REFUSAL = re.compile(
    r"""(?i)(?:\b|_|permission)decision[\s"'\\]*[:=][\s"'\\]*(den(?:y|ied)|block|reject|refuse)"""
)
"""A refusal where no object is found, as behind a quotation mark that is never closed."""


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def without_escapes(text: str) -> str:
    """`text` without the escape sequences by which terminals colour it."""
    return _ESCAPES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def _answers(text: str) -> Iterator[_Given]:
    """The answers, filled in on the way, in the outermost objects of a text that may be cut off,
    have other text around them, or be no valid JSON. Keys of inner objects do not count, except
    `hookSpecificOutput`."""
    frames = [_JsonFrame(outermost=True)]
    for found in _TOKEN.finditer(text):
        mark, frame = found[0], frames[-1]
        if mark in "{[":
            inner = frame.inner(mark == "{")
            if inner.given is not None and inner.given is not frame.given:
                yield inner.given
            frames.append(inner)
        elif mark in "}]":
            if len(frames) > 1:
                frames.pop()
        elif mark == ":":
            frame.key, frame.word = frame.word, ""
        elif mark == ",":
            frame.key = frame.word = ""
        else:
            word = _unquote_token(mark)
            if frame.outermost and "{" in word:  # JSON in a JSON string
                yield from _answers(word)
            frame.take(word)


class _JsonFrame(msgspec.Struct):
    """An open object or list. Its fields are those of `given`, all under the name `field` if it is
    the value of that one. `outermost`: no object encloses it."""

    given: _Given | None = None
    keyed: bool = False
    outermost: bool = False
    field: str = ""
    word: str = ""
    key: str = ""

    def take(self, value: str) -> None:
        """Reads a word: the value of the current key, an item, or else maybe a key."""
        if self.given is not None and (self.key or self.field):
            self.given.take(self.field or self.key, value)
        self.word, self.key = ("" if self.key else value), ""

    def inner(self, keyed: bool) -> "_JsonFrame":
        """The frame of the object or list that opens here."""
        key, self.key = _letters(self.key), ""
        if self.outermost or (self.keyed and not key and not self.field):
            return _JsonFrame(_Given(), keyed=True) if keyed else _JsonFrame(outermost=True)
        if self.given is None or not (key in _FIELDS or self.field or not self.keyed):
            return _JsonFrame(keyed=keyed)
        field = self.field or ("" if key == _SPECIFIC else key)
        return _JsonFrame(self.given, keyed=keyed, field=field)


_SPECIFIC = "hookspecificoutput"
_FIELDS = (
    _SPECIFIC,
    "decision",
    "permissiondecision",
    "continue",
    "stopreason",
    "reason",
    "permissiondecisionreason",
)


def _unquote_token(token: str) -> str:
    if token[0] == "'":
        return token.strip("'")
    if token[0] != '"':
        return token
    text = token[1:].removesuffix('"')
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except (msgspec.DecodeError, UnicodeError):
        return text


def clip_text(text: str, limit: int) -> str:
    """`text`, or its beginning with the number of missing characters."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} [… {len(text) - limit} more characters]"


def _blocking_reason(run: HookRun, read: _ParsedOutput) -> str:
    given = "" if read.output is None else read.output.reason or ""
    text = given or read.text or _text(run.stderr)
    return clip_text(text, MESSAGE_LIMIT) or f"the hook ended with exit code {run.exit_code}"


def _with_text(problem: str, read: _ParsedOutput, run: HookRun) -> str:
    detail = read.wrong or clip_text(read.text or _text(run.stderr), MESSAGE_LIMIT)
    return f"{problem}: {detail}" if detail else problem


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _read(run: HookRun) -> _ParsedOutput:
    if run.stdout_bytes > OUTPUT_LIMIT:
        return _ParsedOutput(
            wrong=f"it wrote {run.stdout_bytes} bytes, of which {OUTPUT_LIMIT} are read"
        )
    try:
        text = without_escapes(run.stdout.decode("utf-8-sig")).strip() or _text(run.stderr)
    except UnicodeDecodeError as error:
        return _ParsedOutput(wrong=f"its output is not UTF-8 (byte {error.start})")
    try:
        value: object = msgspec.json.decode(text)
        if isinstance(value, str):
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if text.startswith("{"):
            return _ParsedOutput(wrong=f"its output is no valid JSON: {error}")
        return _ParsedOutput(text=text)
    if not isinstance(value, dict):
        return _ParsedOutput(wrong="its output is JSON, but no object")
    try:
        output = msgspec.convert(value, _Output)
    except msgspec.ValidationError as error:
        return _ParsedOutput(wrong=f"its output cannot be used: {str(error).replace('`', '')}")
    request = output.hook_specific_output and output.hook_specific_output.llm_request
    if request is not None and request.leaves_nothing():
        return _ParsedOutput(wrong="its llm_request has no messages for the model")
    return _ParsedOutput(output=output)


def _verdict(event: HookEvent, given: _Given, output: _Output) -> HookVerdict:
    """The verdict of an output for an event; fields without meaning there are ignored."""
    specific = output.hook_specific_output or _Specific()
    context = specific.additional_context
    reason = given.stop_reason or given.reason or given.permission_reason
    reason = clip_text(reason, MESSAGE_LIMIT) or NO_REASON
    stops = given.stops
    blocks = not stops and given.decision == "deny"
    asks = not stops and given.decision == "ask" and event is HookEvent.BEFORE_TOOL
    message = clip_text(output.system_message or "", MESSAGE_LIMIT)
    return HookVerdict(
        stop=reason if stops else None,
        block=reason if blocks else None,
        ask=asks,
        reason=reason if asks else "",
        system_messages=(message,) if message else (),
        additional_context=escape_tags(clip_text(context, CONTEXT_LIMIT)) if context else None,
        suppress_output=output.suppress_output or False,
        **_for_event(event, specific),
    )


def _for_event(event: HookEvent, specific: _Specific) -> dict[str, Any]:
    match event:
        case HookEvent.BEFORE_TOOL:
            return {"tool_input": specific.tool_input}
        case HookEvent.AFTER_TOOL:
            tail = specific.tail_call
            given = specific.tool_response
            return {
                "tail_call": None if tail is None else TailCall(tail.name, tail.args),
                "tool_result": None if given is None else given.llm_content,
            }
        case HookEvent.AFTER_AGENT:
            return {"clear_context": specific.clear_context or False}
        case HookEvent.BEFORE_MODEL:
            return {
                "llm_request": _plain(specific.llm_request),
                "llm_response": _plain(specific.llm_response),
            }
        case HookEvent.AFTER_MODEL:
            return {"llm_response": _plain(specific.llm_response)}
        case HookEvent.BEFORE_TOOL_SELECTION:
            return {"tool_config": _plain(specific.tool_config)}
        case (
            HookEvent.BEFORE_AGENT
            | HookEvent.NOTIFICATION
            | HookEvent.SESSION_START
            | HookEvent.SESSION_END
            | HookEvent.PRE_COMPRESS
        ):
            return {}
        case _:
            assert_never(event)


def _plain(value: msgspec.Struct | None) -> dict[str, Any] | None:
    return None if value is None else msgspec.to_builtins(value)


def escape_tags(text: str) -> str:
    """`text` with the brackets of tags escaped, so that it cannot close the enclosing tag."""
    return text.replace("<", "&lt;").replace(">", "&gt;")


_T = TypeVar("_T")

_MODES = ("NONE", "ANY", "AUTO")


def aggregate(verdicts: Sequence[HookVerdict]) -> HookVerdict:
    """Combines verdicts: stop takes precedence over block, block over ask, and an allow cancels
    none of them. Reasons, messages and contexts are joined by newlines. The last value wins, for
    `tool_input` and `llm_request` by key. Among tool configurations NONE precedes ANY, ANY precedes
    AUTO, and all names are combined.
    """
    if not verdicts:
        return SILENT
    stops = [each.stop for each in verdicts if each.stop is not None]
    blocks = [each.block for each in verdicts if each.block is not None]
    asks = [each for each in verdicts if each.ask]
    contexts = [each.additional_context for each in verdicts if each.additional_context]
    settled = bool(stops or blocks)
    return HookVerdict(
        stop="\n".join(stops) if stops else None,
        block="\n".join(blocks) if blocks and not stops else None,
        ask=bool(asks) and not settled,
        reason="" if settled else "\n".join(each.reason for each in asks if each.reason),
        system_messages=tuple(item for each in verdicts for item in each.system_messages),
        additional_context="\n".join(contexts) if contexts else None,
        tool_input=_overlaid(each.tool_input for each in verdicts),
        tail_call=_last_value(each.tail_call for each in verdicts),
        tool_result=_last_value(each.tool_result for each in verdicts),
        contents=_last_value(each.contents for each in verdicts),
        request=_last_value(each.request for each in verdicts),
        llm_request=_overlaid(each.llm_request for each in verdicts),
        llm_response=_last_value(each.llm_response for each in verdicts),
        tool_config=_tool_config([each.tool_config for each in verdicts if each.tool_config]),
        clear_context=any(each.clear_context for each in verdicts),
        suppress_output=any(each.suppress_output for each in verdicts),
    )


def next_input(event: HookEvent, fields: Mapping[str, Any], said: HookVerdict) -> dict[str, Any]:
    """The input of the next hook of a sequence, given this verdict."""
    following = dict(fields)
    if event is HookEvent.BEFORE_TOOL and said.tool_input is not None:
        following["tool_input"] = {**fields.get("tool_input", {}), **said.tool_input}
    elif event is HookEvent.BEFORE_AGENT and said.additional_context is not None:
        following["prompt"] = f"{fields.get('prompt', '')}\n\n{said.additional_context}"
    elif event is HookEvent.BEFORE_MODEL and said.llm_request is not None:
        following["llm_request"] = {**fields.get("llm_request", {}), **said.llm_request}
    elif event is HookEvent.AFTER_TOOL and said.tool_result is not None:
        response: dict[str, Any] = {**fields["tool_response"], "llmContent": said.tool_result}
        if response["error"] is not None:
            response["error"] = {**response["error"], "message": said.tool_result}
        following["tool_response"] = response
    elif event is HookEvent.AFTER_MODEL and said.llm_response is not None:
        following["llm_response"] = {**fields["llm_response"], **said.llm_response}
    return following


def unknown_keys(answer: Mapping[Any, Any]) -> list[str]:
    """The keys of a function's answer that mean nothing."""
    keys = {field.encode_name for field in msgspec.structs.fields(_Output)}
    found = [str(key) for key in answer if key not in keys and _letters(str(key)) not in _FIELDS]
    specific = answer.get("hookSpecificOutput")
    inner = {field.encode_name for field in msgspec.structs.fields(_Specific)} | {"hookEventName"}
    if isinstance(specific, dict):
        names = cast("dict[Any, Any]", specific)
        found += [
            f"hookSpecificOutput.{key}"
            for key in names
            if key not in inner and _letters(str(key)) not in _FIELDS
        ]
    return found


def _overlaid(values: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    given = [value for value in values if value is not None]
    return {key: item for value in given for key, item in value.items()} if given else None


def _last_value(values: Iterable[_T | None]) -> _T | None:
    found: _T | None = None
    for value in values:
        found = found if value is None else value
    return found


def _tool_config(configs: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not configs:
        return None
    modes = {config.get("mode") or "AUTO" for config in configs}
    names = {name for config in configs for name in config.get("allowedFunctionNames") or ()}
    joined: dict[str, Any] = {"mode": next(mode for mode in _MODES if mode in modes)}
    if names and joined["mode"] != "NONE":
        joined["allowedFunctionNames"] = sorted(names)
    return joined
