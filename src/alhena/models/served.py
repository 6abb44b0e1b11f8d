"""The service's own list of models: kept a day, asked for only when it is needed."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from alhena.errors import AlhenaError, ModelError
from alhena.models.catalogue import ServedModel, add_served, model_info, today
from alhena.models.errors import ModelNotFoundError, ZeroQuotaError
from alhena.models.generator import ContentGenerator
from alhena.near_names import near_names

PATIENCE_S = 4.0
"""Seconds that a service may take to list its models."""
_STABLE = re.compile(r"(?:models/)?gemini-(\d+)(?:\.(\d+))?-(pro|flash-lite|flash|[a-z]+)(-\d{3})?")
_NOT_CONVERSING = frozenset({"live", "image", "tts", "embedding", "audio", "preview", "exp"})


class _File(msgspec.Struct, frozen=True):
    """The kept list: the day it was asked for (YYYY-MM-DD), and the models."""

    day: str
    models: tuple[ServedModel, ...]


class ModelList:
    """The models that the credentials can use. `ask` requests them from the service; `read` and
    `write` are for the bytes that keep them until the end of the day. They raise AlhenaError."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[tuple[ServedModel, ...]]],
        read: Callable[[], bytes | None],
        write: Callable[[bytes], None],
    ) -> None:
        self._ask = ask
        self._read = read
        self._write = write
        self._known: tuple[ServedModel, ...] | None = None
        self._turn = asyncio.Lock()

    def read_cached(self) -> tuple[ServedModel, ...] | None:
        """The list that was asked for today, by this process or another one; None without any."""
        if self._known is None:
            try:
                data = self._read()
                found = None if data is None else msgspec.json.decode(data, type=_File)
            except (AlhenaError, msgspec.DecodeError, UnicodeDecodeError):
                return None  # it is asked for again
            if found is not None and found.day == today():
                self._known = found.models
                add_served(found.models)
        return self._known

    async def models(self) -> tuple[ServedModel, ...]:
        """The list, asked for if there is none of today; empty if the service does not answer."""
        async with self._turn:
            known = self.read_cached()
            if known is not None:
                return known
            try:
                async with asyncio.timeout(PATIENCE_S):
                    found = await self._ask()
            except (AlhenaError, TimeoutError):
                return ()
            self._known = found
            add_served(found)
            with suppress(AlhenaError):  # a list that cannot be kept is asked for again
                self._write(msgspec.json.encode(_File(today(), found)))
            return found


def unwrap(generator: ContentGenerator, method: str) -> Any:
    """The first generator with this method, from the outermost of those that wrap each other; None
    if none has it."""
    inner: Any = generator
    while not hasattr(inner, method):
        if not hasattr(inner, "inner"):
            return None
        inner = inner.inner
    return inner


async def list_names(generator: ContentGenerator) -> tuple[str, ...]:
    """The names of the models of a service that lists only these; empty without an answer."""
    inner = unwrap(generator, "models")
    if inner is None:
        return ()
    listing: Callable[[], Awaitable[tuple[str, ...]]] = inner.models
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await listing()
    except (AlhenaError, TimeoutError):
        return ()


def list_name(place: str, credential: str) -> str:
    """The name of the file of a list: one for each address and credential."""
    return hashlib.sha256(f"{place}\n{credential}".encode()).hexdigest()[:24] + ".json"


def newest_stable(name: str, served: Collection[ServedModel], gone: Collection[str]) -> str | None:
    """The newest stable model of the list in the tier of `name`, else of the flash tier; None
    without one. Previews, names of the newest models, and models for speech, images or live audio
    are none; neither are those that are `gone` or have ended."""
    for tier in dict.fromkeys((model_info(name).tier, "flash")):
        found = [
            (version, each.name)
            for each in served
            if each.name not in gone and (version := _stable_version(each.name, tier)) is not None
        ]
        if found:
            return max(found)[1]
    return None


def _stable_version(name: str, tier: str) -> tuple[int, int, bool] | None:
    found = _STABLE.fullmatch(name)
    if found is None or found[3] in _NOT_CONVERSING:
        return None
    info = model_info(name)
    if info.tier != tier or not info.is_served(today()):
        return None
    return int(found[1]), int(found[2] or 0), found[4] is None


def is_gone(error: ModelError) -> bool:
    """True if the service has no such model for these credentials."""
    return isinstance(error, ModelNotFoundError | ZeroQuotaError)


def near_models(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """The most similar of these names, at most three, the nearest first; the first three if none is
    similar."""
    return tuple(near_names(name, names, 3, 0.4)) or tuple(names[:3])


def nearest(name: str, served: Collection[ServedModel]) -> tuple[str, ...]:
    """The served models of the most similar names, at most three, the nearest first. Services list
    models that they refuse to new keys: `name` is none of them, nor one that has announced its end,
    nor one for speech or images unless `name` is one too."""
    bare = name.removeprefix("models/").lower()
    others = _NOT_CONVERSING.difference(bare.split("-"), {"preview"})
    names = [
        each.name
        for each in served
        if each.name != bare
        and not model_info(each.name).ends
        and others.isdisjoint(each.name.split("-"))
    ]
    return near_models(bare, names)


class ModelRenewal:
    """Finds the successors of models that a service no longer has. `models` returns its list."""

    def __init__(self, models: Callable[[], Awaitable[tuple[ServedModel, ...]]]) -> None:
        self._models = models
        self._gone: set[str] = set()

    async def instead_of(self, model: str, error: ModelError, *, chosen: bool) -> str | None:
        """The newest stable model of the same tier; None if the service still has `model`. Not
        `chosen`: a person wrote the name, which is never replaced. Raises `error` with the names of
        served models then."""
        if not is_gone(error):
            return None
        if not chosen:
            if isinstance(error, ModelNotFoundError):
                raise with_served_names(error, model, await self._models())
            return None
        self._gone.add(model.removeprefix("models/"))
        return newest_stable(model, await self._models(), self._gone)


def with_served_names(error: ModelError, name: str, served: Collection[ServedModel]) -> ModelError:
    """The error for a model that is gone, with the served models of similar names as remedy."""
    names = nearest(name, served)
    if not names or not isinstance(error, ModelNotFoundError):
        return error
    return ModelNotFoundError(
        error.message,
        remedy=f"Choose a model that is served with -m, such as {', '.join(names)}.",
        status=error.status,
    )
