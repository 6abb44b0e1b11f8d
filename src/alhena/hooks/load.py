"""Loads hooks from documents: settings files, and the `hooks/hooks.json` of extensions. Pure.

Each problem names its file and its path in the document; valid entries still apply.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from alhena.hooks.model import (
    DEFAULT_TIMEOUT_MS,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookSource,
    OnFailure,
)
from alhena.values import Value
from alhena.wire.json_values import as_array, as_object

MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000

CONFIG_KEYS = frozenset({"enabled", "disabled", "notifications"})
"""Keys of `hooksConfig`. Older versions have them in `hooks`, beside the events."""

_HOOK_KEYS = frozenset(
    {"type", "command", "name", "description", "timeout", "env", "onFailure"},
)
_BLANKS = re.compile(r"\s*(\|)\s*")
"""Blanks around a name in a matcher, which would prevent a match."""
_GROUP_KEYS = frozenset({"matcher", "sequential", "hooks"})


class Level(StrEnum):
    """The severity of a problem: a hook is missing, a setting has no effect, information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class HookProblem(Value, frozen=True, kw_only=True):
    """A problem and its location. `weakens`: a missing hook may have been a safeguard."""

    file: str
    path: str
    message: str
    remedy: str = ""
    level: Level = Level.ERROR
    weakens: bool = False

    def __str__(self) -> str:
        place = f"{self.file}: {self.path} " if self.path else ""
        return f"{place}{self.message.rstrip('.')}. {self.remedy}".strip()


class HookDocument(Value, frozen=True, kw_only=True):
    """A document with `hooks` and, optionally, `hooksConfig`, and its source."""

    value: Any
    file: str
    source: HookSource
    extension: str = ""


class LoadedHooks(Value, frozen=True):
    """The hooks of a document, and its problems. `enabled` and `disabled` come from its
    `hooksConfig`."""

    groups: tuple[HookGroup, ...] = ()
    problems: tuple[HookProblem, ...] = ()
    enabled: bool = True
    disabled: frozenset[str] = frozenset()


def load_hooks(document: HookDocument) -> LoadedHooks:
    """Loads the hooks of a document."""
    return _Reader(document).read()


class _Reader:
    def __init__(self, document: HookDocument) -> None:
        self._document = document
        self._problems: list[HookProblem] = []

    def read(self) -> LoadedHooks:
        """Everything in the document."""
        top = as_object(self._document.value)
        if top is None:
            self._wrong("the document", "is not a JSON object")
            top = {}
        hooks = self._object(top, "hooks", "hooks")
        config = {key: hooks[key] for key in CONFIG_KEYS if key in hooks}
        config |= self._object(top, "hooksConfig", "hooksConfig")
        groups: list[HookGroup] = []
        for key, value in hooks.items():
            if key in CONFIG_KEYS:
                continue
            if key not in _EVENTS:
                self._problem(f"hooks.{key}", "is no event", f"The events are {_EVENT_NAMES}.")
                continue
            groups += self._groups(HookEvent(key), value)
        enabled = config.get("enabled", True)
        if not isinstance(enabled, bool):
            self._wrong("hooksConfig.enabled", "is neither true nor false")
            enabled = True
        disabled = frozenset(self._strings(config.get("disabled", ()), "hooksConfig.disabled"))
        return LoadedHooks(
            groups=tuple(groups),
            problems=tuple(self._problems),
            enabled=enabled,
            disabled=disabled,
        )

    def _groups(self, event: HookEvent, value: Any) -> Iterator[HookGroup]:
        path = f"hooks.{event}"
        entries = as_array(value)
        if entries is None:
            self._wrong(path, "is no array", 'Write [{"matcher": "…", "hooks": […]}].')
            return
        for index, entry in enumerate(entries):
            group = self._group(event, entry, f"{path}[{index}]")
            if group is not None:
                yield group

    def _group(self, event: HookEvent, value: Any, path: str) -> HookGroup | None:
        entry = as_object(value)
        if entry is None:
            self._wrong(path, "is no object", 'Write {"matcher": "…", "hooks": […]}.')
            return None
        hooks = as_array(entry.get("hooks"))
        if hooks is None:
            self._wrong(
                f"{path}.hooks", "is missing or no array", 'Write [{"type": "command", …}].'
            )
            return None
        matcher = entry.get("matcher", "")
        if matcher is None:
            matcher = ""
        if not isinstance(matcher, str):
            self._wrong(f"{path}.matcher", "is no text", "Without one the group hears of all.")
            return None
        matcher = _BLANKS.sub(r"\1", matcher.strip())
        sequential = entry.get("sequential", False)
        if not isinstance(sequential, bool):
            self._problem(f"{path}.sequential", "is neither true nor false", "It counts as true.")
            sequential = True
        self._check_matcher(event, matcher, f"{path}.matcher")
        for key in sorted(entry.keys() - _GROUP_KEYS):
            self._problem(f"{path}.{key}", "is not known here", level=_level(key))
        found = [self._hook(hook, f"{path}.hooks[{at}]") for at, hook in enumerate(hooks)]
        return HookGroup(
            event=event,
            hooks=tuple(hook for hook in found if hook is not None),
            matcher=matcher,
            sequential=sequential,
        )

    def _hook(self, value: Any, path: str) -> HookDefinition | None:
        entry = as_object(value)
        if entry is None:
            self._wrong(path, "is no object", 'Write {"type": "command", "command": "…"}.')
            return None
        function = entry.get("function")
        if callable(function) and self._document.source is HookSource.RUNTIME:
            return _of_function(function, self._document.file)
        kind = entry.get("type", "command")
        if kind != "command":
            self._problem(f"{path}.type", f"{kind!r} is not known", 'Only "command" is.')
            return None
        document = self._document
        default = OnFailure.BLOCK if document.source is HookSource.SYSTEM else OnFailure.WARN
        try:
            on_failure = OnFailure(entry.get("onFailure", default))
        except ValueError:
            self._wrong(f"{path}.onFailure", 'is neither "block" nor "warn"', weakens=True)
            return None
        try:
            for key in sorted(entry.keys() - _HOOK_KEYS):
                if _level(key) is not Level.NOTE:
                    raise _FieldError(key, "is not known", 'It is written "onFailure".')
                self._problem(f"{path}.{key}", "is not known", level=Level.NOTE)
            return HookDefinition(
                command=_command(entry.get("command")),
                source=document.source,
                name=_text(entry, "name"),
                timeout_ms=_timeout(entry.get("timeout")),
                env=_environment(entry.get("env")),
                description=_text(entry, "description"),
                on_failure=on_failure,
                place=f"{document.file}: {path}",
                extension=document.extension,
            )
        except _FieldError as error:
            weakens = on_failure is OnFailure.BLOCK
            self._wrong(f"{path}.{error.field}", error.message, error.remedy, weakens=weakens)
            return None

    def _check_matcher(self, event: HookEvent, matcher: str, path: str) -> None:
        if event not in (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL) or matcher in ("", "*"):
            return
        from alhena.hooks.planning import compiled

        if compiled(matcher) is None:
            self._problem(
                path, "is no regular expression", "It means the tool of exactly this name."
            )

    def _object(self, entry: dict[str, Any], key: str, path: str) -> dict[str, Any]:
        value = entry.get(key)
        found = as_object({} if value is None else value)
        if found is None:
            self._wrong(path, "is no object")
        return found or {}

    def _strings(self, value: Any, path: str) -> Iterable[str]:
        items = as_array(value)
        if items is None:
            self._wrong(path, "is no array")
            return
        for index, item in enumerate(items):
            if isinstance(item, str):
                yield item
            else:
                self._wrong(f"{path}[{index}]", "is no text")

    def _problem(
        self, path: str, message: str, remedy: str = "", *, level: Level = Level.WARNING
    ) -> None:
        self._problems.append(
            HookProblem(
                file=self._document.file, path=path, message=message, remedy=remedy, level=level
            )
        )

    def _wrong(
        self, path: str, message: str, remedy: str = "Correct it.", *, weakens: bool = False
    ) -> None:
        # In a system's document any unreadable hook may have been a blocking one; a
        # project's hooks are not safeguards the user relies on.
        source = self._document.source
        weakens = source is HookSource.SYSTEM or (weakens and source is not HookSource.PROJECT)
        self._problems.append(
            HookProblem(
                file=self._document.file,
                path=path,
                message=message,
                remedy=remedy,
                weakens=weakens,
            )
        )


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


class _FieldError(Exception):
    """A field of a hook is invalid."""

    def __init__(self, field: str, message: str, remedy: str = "Correct it.") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.remedy = remedy


def _level(key: str) -> Level:
    """The severity of an unknown key: one may be meant to make a hook block."""
    means_failure = key.replace("_", "").lower() == "onfailure"
    return Level.WARNING if means_failure else Level.NOTE


def _command(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _FieldError("command", "is missing, empty or no text", "Say what to run.")
    if "\0" in value:
        raise _FieldError("command", "contains a NUL character")
    return value


def _text(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _FieldError(field, "is no text")
    return value


def _timeout(value: Any) -> int:
    if value is None:
        return DEFAULT_TIMEOUT_MS
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 1 <= value <= MAX_TIMEOUT_MS:
        raise _FieldError(
            "timeout", f"is no number of milliseconds from 1 to {MAX_TIMEOUT_MS}", "Correct it."
        )
    return int(value)


def _environment(value: Any) -> dict[str, str]:
    entries = as_object({} if value is None else value)
    if entries is None:
        raise _FieldError("env", "is no object of texts")
    for name, text in entries.items():
        if not name or "=" in name or "\0" in name:
            raise _FieldError(f"env.{name}", "is no name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise _FieldError(f"env.{name}", "is no text without NUL characters")
    return entries


_EVENTS = frozenset(event.value for event in HookEvent)
_EVENT_NAMES = ", ".join(HookEvent)
