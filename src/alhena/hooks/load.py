"""Loads hooks from documents: settings files, and the `hooks/hooks.json` of extensions. Pure.

Each problem names its file and its path in the document; valid entries still apply.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec

from alhena.config.documents import typed_value
from alhena.hooks.model import (
    DEFAULT_TIMEOUT_MS,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookSource,
    OnFailure,
)
from alhena.values import Value

MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000

CONFIG_KEYS = frozenset({"enabled", "disabled", "notifications"})
"""Keys of `hooksConfig`. Older versions have them in `hooks`, beside the events."""

_BLANKS = re.compile(r"\s*(\|)\s*")
"""Blanks around a name in a matcher, which would prevent a match."""
_EVENTS = frozenset(event.value for event in HookEvent)
GUARDED = frozenset(
    {
        HookEvent.BEFORE_TOOL,
        HookEvent.AFTER_TOOL,
        HookEvent.BEFORE_AGENT,
        HookEvent.BEFORE_MODEL,
        HookEvent.AFTER_MODEL,
    }
)
"""The events whose hooks can prevent or withhold something."""
_ENDING = frozenset({HookSource.SYSTEM, HookSource.USER, HookSource.RUNTIME})
"""Sources of whose hooks an unreadable one ends a run; in place of others is one that blocks."""
_T = TypeVar("_T")


class HookProblemLevel(StrEnum):
    """The severity of a problem: a hook is missing, a setting has no effect, information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class HookProblem(Value, frozen=True, kw_only=True):
    """A problem and its location. `weakens`: a missing hook may have been a safeguard, so nothing
    runs."""

    file: str
    path: str
    message: str
    remedy: str = ""
    level: HookProblemLevel = HookProblemLevel.ERROR
    weakens: bool = False

    def __str__(self) -> str:
        place = f"{self.file}: {self.path} " if self.path else ""
        return f"{place}{self.message.rstrip('.')}. {self.remedy}".strip()


class HookDocument(Value, frozen=True, kw_only=True):
    """A document with `hooks` and, optionally, `hooksConfig`, and its source. `environ` are further
    variables of its hooks, `unreadable` is the reason why the file has no value."""

    value: Any
    file: str
    source: HookSource
    extension: str = ""
    environ: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    unreadable: str = ""


class LoadedHooks(Value, frozen=True):
    """The hooks of a document, and its problems. `enabled` and `disabled` come from its
    `hooksConfig`."""

    groups: tuple[HookGroup, ...] = ()
    problems: tuple[HookProblem, ...] = ()
    enabled: bool = True
    disabled: frozenset[str] = frozenset()


class _Document(msgspec.Struct, rename="camel"):
    hooks: dict[str, Any] | None = None
    hooks_config: dict[str, Any] | None = None


class _Config(msgspec.Struct):
    enabled: bool = True
    disabled: frozenset[str] = frozenset()


class _Group(msgspec.Struct):
    hooks: list[Any]
    matcher: str | None = None
    sequential: bool = False


class _Hook(msgspec.Struct, rename="camel"):
    command: Annotated[str, msgspec.Meta(min_length=1)]
    type: Literal["command"] = "command"
    name: str | None = None
    description: str | None = None
    timeout: Annotated[float, msgspec.Meta(ge=1, le=MAX_TIMEOUT_MS)] | None = None
    env: dict[str, str] | None = None
    on_failure: OnFailure | None = None


def load_hooks(document: HookDocument) -> LoadedHooks:
    """Loads the hooks of a document."""
    return _HookReader(document).read()


class _HookReader:
    def __init__(self, document: HookDocument) -> None:
        self._document = document
        self._problems: list[HookProblem] = []

    def read(self) -> LoadedHooks:
        """Everything in the document."""
        if self._document.unreadable:
            self._wrong("", self._document.unreadable)
            return LoadedHooks(tuple(self._block_all()), tuple(self._problems))
        top = self._convert_value(self._document.value, _Document, "")
        if top is None:
            return LoadedHooks(tuple(self._block_all()), tuple(self._problems))
        hooks = top.hooks or {}
        config = {key: hooks[key] for key in CONFIG_KEYS if key in hooks}
        config |= top.hooks_config or {}
        alone = self._document.source is HookSource.SYSTEM
        known = self._convert_value(config, _Config, "hooksConfig", weakens=alone) or _Config()
        groups: list[HookGroup] = []
        for key, value in hooks.items():
            if key in _EVENTS:
                groups += self._groups(HookEvent(key), value)
            elif key not in CONFIG_KEYS:
                remedy = f"The events are {', '.join(HookEvent)}."
                self._warn(f"hooks.{key}", "is no event", remedy)
        return LoadedHooks(tuple(groups), tuple(self._problems), known.enabled, known.disabled)

    def _groups(self, event: HookEvent, value: Any) -> Iterator[HookGroup]:
        path = f"hooks.{event}"
        entries = self._convert_value(value, list[Any], path)
        if entries is None:
            yield from self._block(event, path)
            return
        for index, entry in enumerate(entries):
            place = f"{path}[{index}]"
            group = self._convert_value(_in_group(entry), _Group, place)
            if group is None:
                yield from self._block(event, place)
                continue
            matcher = _BLANKS.sub(r"\1", (group.matcher or "").strip())
            self._check_matcher(event, matcher, f"{place}.matcher")
            hooks = [
                self._hook(event, hook, f"{place}.hooks[{at}]")
                for at, hook in enumerate(group.hooks)
            ]
            yield HookGroup(
                event=event,
                hooks=tuple(hook for hook in hooks if hook is not None),
                matcher=matcher,
                sequential=group.sequential,
            )

    def _hook(self, event: HookEvent, value: Any, path: str) -> HookDefinition | None:
        document = self._document
        entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        function = entry.get("function")
        if callable(function) and document.source is HookSource.RUNTIME:
            return _of_function(function, document.file)
        default = OnFailure.BLOCK if document.source is HookSource.SYSTEM else OnFailure.WARN
        hook = self._convert_value(value, _Hook, path)
        if hook is None:
            return self._stand_in(event, path, entry.get("name"))
        return HookDefinition(
            command=hook.command,
            source=document.source,
            name=hook.name or "",
            timeout_ms=DEFAULT_TIMEOUT_MS if hook.timeout is None else int(hook.timeout),
            env={**document.environ, **(hook.env or {})},
            description=hook.description or "",
            on_failure=hook.on_failure or default,
            place=f"{document.file}: {path}",
            extension=document.extension,
        )

    def _block_all(self) -> Iterator[HookGroup]:
        for event in sorted(GUARDED):
            yield from self._block(event, "")

    def _block(self, event: HookEvent, path: str) -> Iterator[HookGroup]:
        """A group that blocks, in place of an unreadable one of an extension or a project."""
        if (hook := self._stand_in(event, path, None)) is not None:
            yield HookGroup(event=event, hooks=(hook,))

    def _stand_in(self, event: HookEvent, path: str, name: object) -> HookDefinition | None:
        """A hook that blocks, in place of an unreadable one; None where the run ends instead, or
        where hooks can prevent nothing."""
        document = self._document
        if document.source in _ENDING or event not in GUARDED:
            return None
        place = ": ".join(filter(None, (document.file, path)))
        return HookDefinition(
            command=blocking_command(f"the hook cannot be read ({place}); correct or disable it."),
            source=document.source,
            name=name if isinstance(name, str) else "",
            on_failure=OnFailure.BLOCK,
            place=place,
            extension=document.extension,
        )

    def _check_matcher(self, event: HookEvent, matcher: str, path: str) -> None:
        if event not in (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL) or matcher in ("", "*"):
            return
        from alhena.hooks.planning import compile_matcher

        if compile_matcher(matcher) is None:
            remedy = "It means the tool of exactly this name."
            self._warn(path, "is no regular expression", remedy)

    def _convert_value(
        self, value: Any, kind: type[_T], path: str, *, weakens: bool = True
    ) -> _T | None:
        """The value as this type; None, with a problem, if it is none. Keys that are not known are
        notes, except one that may be meant to make a hook block."""
        value = typed_value(value, kind)
        try:
            found = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            from alhena.config.checking import explain_error

            inner, words = explain_error(error)
            dot = "." if path and inner and not inner.startswith("[") else ""
            place = f"{path}{dot}{inner}" or "the document"
            self._wrong(place, f"is wrong: {words[:1].lower()}{words[1:]}", weakens=weakens)
            return None
        if isinstance(found, _Group | _Hook):
            for key in sorted(value.keys() - found.__struct_encode_fields__):
                meant = key.replace("_", "").lower() == "onfailure"
                level = HookProblemLevel.WARNING if meant else HookProblemLevel.NOTE
                self._warn(f"{path}.{key}", "is not known", level=level)
        return found

    def _warn(
        self,
        path: str,
        message: str,
        remedy: str = "",
        level: HookProblemLevel = HookProblemLevel.WARNING,
    ) -> None:
        self._problems.append(
            HookProblem(
                file=self._document.file, path=path, message=message, remedy=remedy, level=level
            )
        )

    def _wrong(self, path: str, message: str, *, weakens: bool = True) -> None:
        ends = self._document.source in _ENDING
        guarded = weakens and not ends
        self._problems.append(
            HookProblem(
                file=self._document.file,
                path=path,
                message=message,
                remedy="Correct it; until then, what it guards is blocked."
                if guarded
                else "Correct it.",
                weakens=weakens and ends,
            )
        )


def blocking_command(reason: str) -> str:
    """The command of a hook that blocks, with a reason."""
    return f"printf %s {shlex.quote(reason)} >&2; exit 2"


def _in_group(entry: Any) -> Any:
    """A group of one hook that the list of an event has without a group."""
    if not isinstance(entry, dict) or "hooks" in entry or "command" not in entry:
        return cast("Any", entry)
    hook = dict(cast("dict[str, Any]", entry))
    group = {key: hook.pop(key) for key in ("matcher", "sequential") if key in hook}
    return {**group, "hooks": [hook]}


def _of_function(function: Callable[..., Any], place: str) -> HookDefinition:
    name = getattr(function, "__name__", type(function).__name__)
    return HookDefinition(
        command=f"{name} at {id(function):#x}",
        source=HookSource.RUNTIME,
        name=name,
        on_failure=OnFailure.BLOCK,
        place=place,
        function=function,
    )
