"""Model objects of programs: agents share them, and with them their connections."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import Any, ClassVar, cast

import msgspec
from msgspec.structs import replace

from alhena.config.settings import AuthSettings, SecuritySettings, Settings
from alhena.errors import ConfigError, ProgramError
from alhena.http import Timeouts
from alhena.http.addresses import is_header_name, is_header_value
from alhena.models.catalogue import (
    ANTHROPIC,
    OPENAI,
    OPENAI_RESPONSES,
    default_model,
    is_foreign_model,
)
from alhena.models.errors import CredentialsError
from alhena.models.named import ONCE, NamedModel
from alhena.models.providers.select import (
    RECORDINGS,
    AuthType,
    ChosenGenerator,
    ModelChoice,
    choose_generator,
    is_demo,
    login_files,
)
from alhena.models.retry import REPLAY, RetryPolicy
from alhena.models.settings import NONE, ModelSettings, settings_of
from alhena.values import Value
from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.encode import EncodedContent, encode_request
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import (
    Candidate,
    EmbedContentResponse,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

USUAL = RetryPolicy()


class ObjectOptions(Value, frozen=True, kw_only=True):
    """The connections, retries (None: none) and settings of a model object."""

    headers: Mapping[str, str] = {}
    timeouts: Timeouts = Timeouts()
    retry: RetryPolicy | None = USUAL
    settings: ModelSettings = NONE


def options(
    headers: Any, timeout: Any, connect_timeout: Any, retry: Any, settings: Any
) -> ObjectOptions:
    """The options of a model object. Raises TypeError and ConfigError, naming the argument."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers has to be a mapping of names to values, not {headers!r:.60}")
    sent: dict[str, str] = {}
    for name, value in cast("Mapping[Any, Any]", headers).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError("headers has to be a mapping of texts to texts")
        if not is_header_name(name) or not is_header_value(value):
            raise ConfigError(f"headers: {name[:60]!r} cannot be sent.", remedy="Correct it.")
        sent[name.lower()] = value
    for argument, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise TypeError(f"{argument} has to be seconds above 0, not {seconds!r:.60}")
    if not isinstance(retry, RetryPolicy | None):
        raise TypeError(f"retry has to be a RetryPolicy or None, not {retry!r:.60}")
    return ObjectOptions(
        headers=sent,
        timeouts=Timeouts(connect=connect_timeout, idle=timeout),
        retry=retry,
        settings=settings_of("settings", settings),
    )


class SharedModel(NamedModel):
    """A model that many agents may use at the same time, over one pool of connections.

        async with Gemini("gemini-3.8-flash") as model:
            agents = [Agent(model), Agent(model)]

    Whoever makes it closes it. `name` is the model's name, with the prefix of its service if it has
    one. All of them take `headers` of each request, `timeout` (seconds without news of an answer)
    and `connect_timeout`, `retry` (None: each request is sent once), and `settings`, which those of
    an agent and of a run go before.
    """

    _WITHOUT_CREDENTIALS: ClassVar[str | None] = None
    """The remedy for absent credentials."""

    def __init__(self, choice: ModelChoice, more: "ObjectOptions | None" = None) -> None:
        more = more or ObjectOptions()
        retry = choice.retry or more.retry or ONCE
        choice = replace(choice, headers=more.headers, timeouts=more.timeouts)
        try:
            chosen = choose_generator(replace(choice, retry=None))
        except CredentialsError as error:
            error.remedy = self._WITHOUT_CREDENTIALS or error.remedy
            if not RECORDINGS:
                raise

            def absent(missing: CredentialsError = error) -> ChosenGenerator:
                raise missing

            chosen = RECORDINGS[-1].generator(absent, choice.model, os.getcwd())
        super().__init__(choice.model, chosen.generator, retry, more.settings)
        self.chosen = replace(chosen, generator=self)


class Gemini(SharedModel):
    """A model of the Gemini API, with the key of GEMINI_API_KEY unless `api_key` is given; at
    `base_url`, GOOGLE_GEMINI_BASE_URL or Google's address. Raises ConfigError, CredentialsError and
    TypeError."""

    _WITHOUT_CREDENTIALS = "Pass api_key, or set GEMINI_API_KEY."

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | None = USUAL,
        settings: ModelSettings = NONE,
    ) -> None:
        environ = _environ({"GEMINI_API_KEY": _key(api_key)})
        super().__init__(
            ModelChoice(
                model=_own_name(name),
                environ=environ,
                settings=_settings(AuthType.API_KEY),
                base_url=_text("base_url", base_url),
            ),
            options(headers, timeout, connect_timeout, retry, settings),
        )


class Vertex(SharedModel):
    """A Gemini model of Vertex AI, of a project at a location with Application Default Credentials,
    or with an express `api_key`. What is not given is that of GOOGLE_CLOUD_PROJECT,
    GOOGLE_CLOUD_LOCATION and GOOGLE_API_KEY. Raises ConfigError, CredentialsError and TypeError."""

    _WITHOUT_CREDENTIALS = "Pass project and location, or api_key."

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        name: str,
        *,
        project: str | None = None,
        location: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | None = USUAL,
        settings: ModelSettings = NONE,
    ) -> None:
        if api_key is not None and (project or location):
            raise ConfigError(
                "api_key excludes project and location.", remedy="Pass one or the other."
            )
        given = {
            "GOOGLE_CLOUD_PROJECT": _text("project", project),
            "GOOGLE_CLOUD_LOCATION": _text("location", location),
            "GOOGLE_API_KEY": "" if project or location else _key(api_key),
        }
        try:
            super().__init__(
                ModelChoice(
                    model=_own_name(name),
                    environ=_environ(given),
                    settings=_settings(AuthType.VERTEX),
                ),
                options(headers, timeout, connect_timeout, retry, settings),
            )
        except ConfigError as error:
            if location is None or "GOOGLE_CLOUD_LOCATION" not in error.message:
                raise
            raise ConfigError(
                f"location is no location of Vertex AI: {location[:40]!r}.",
                remedy="Pass a region such as us-central1, or global, us or eu.",
            ) from error


class CodeAssist(SharedModel):
    """A Gemini model for the Google account of `alhena auth login`, with the company's `project` if
    the account needs one. Raises ConfigError, CredentialsError and TypeError."""

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        name: str,
        *,
        project: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | None = USUAL,
        settings: ModelSettings = NONE,
    ) -> None:
        environ = _environ({"GOOGLE_CLOUD_PROJECT": _text("project", project)})
        super().__init__(
            ModelChoice(
                model=_own_name(name),
                environ=environ,
                settings=_settings(AuthType.LOGIN),
                private_files=partial(login_files, environ),
            ),
            options(headers, timeout, connect_timeout, retry, settings),
        )


class OpenAICompatible(SharedModel):
    """A model of OpenAI, or of a server with the same API at `base_url` (Ollama, llama.cpp, vLLM,
    …; "http://localhost:11434/v1"). What is not given is that of OPENAI_API_KEY and
    OPENAI_BASE_URL; a server of this machine needs no key. A name `openai-responses:NAME` asks the
    Responses API. Raises ConfigError, CredentialsError and
    TypeError."""

    _WITHOUT_CREDENTIALS = "Pass api_key, or set OPENAI_API_KEY."

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | None = USUAL,
        settings: ModelSettings = NONE,
    ) -> None:
        super().__init__(
            ModelChoice(
                model=_with_prefix(OPENAI, name),
                environ=_environ({"OPENAI_API_KEY": _key(api_key)}),
                base_url=_text("base_url", base_url),
            ),
            options(headers, timeout, connect_timeout, retry, settings),
        )


class Anthropic(SharedModel):
    """A model of Anthropic, or of a server with the same API at `base_url`. What is not given is
    that of ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL. Raises ConfigError, CredentialsError and
    TypeError."""

    _WITHOUT_CREDENTIALS = "Pass api_key, or set ANTHROPIC_API_KEY."

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | None = USUAL,
        settings: ModelSettings = NONE,
    ) -> None:
        given = {"ANTHROPIC_API_KEY": _key(api_key)}
        if api_key is not None:
            given["ANTHROPIC_AUTH_TOKEN"] = ""
        super().__init__(
            ModelChoice(
                model=_with_prefix(ANTHROPIC, name),
                environ=_environ(given),
                base_url=_text("base_url", base_url),
            ),
            options(headers, timeout, connect_timeout, retry, settings),
        )


class Recorded(SharedModel):
    """Gives the answers of a file in order, whatever is asked: one that `alhena.testing.record` or
    `alhena --record-responses` has written. `name` is the model's name for the agent. Raises
    RecordingError."""

    def __init__(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        super().__init__(
            ModelChoice(
                model=name or default_model(),
                environ={},
                fake_responses=os.fspath(path),
                retry=REPLAY,
            )
        )


def _settings(kind: AuthType) -> Settings:
    return Settings(security=SecuritySettings(auth=AuthSettings(selected_type=kind)))


def _environ(given: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of the process with the values that were given."""
    return {**os.environ, **{name: text for name, text in given.items() if text is not None}}


def _text(argument: str, value: Any) -> str | None:
    """An optional argument. Raises TypeError unless it is text, ConfigError for an empty one."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{argument} has to be text, not {type(value).__name__}")
    if value is not None and not value.strip():
        raise ConfigError(f"{argument} is empty.", remedy="Pass a value, or leave it out.")
    return value


def _key(api_key: Any) -> str | None:
    from alhena.wire.json_values import is_token

    key = _text("api_key", api_key)
    if key is not None and not is_token(key.strip()):
        raise ConfigError(
            "api_key contains blanks, line breaks or characters that no key has.",
            remedy="Copy the key again.",
        )
    return key


def _own_name(name: Any) -> str:
    """The name of a model of Google's."""
    text = _name(name)
    if is_demo(text) or is_foreign_model(text):
        raise ConfigError(
            f"{text!r} names no Gemini model.",
            remedy='Pass a name such as "gemini-3.8-flash"; OpenAICompatible and Anthropic are '
            "for models of other services.",
        )
    return text


def _with_prefix(prefix: str, name: Any) -> str:
    text = _name(name)
    if prefix == OPENAI and text.startswith(OPENAI_RESPONSES):
        return text
    return prefix + text.removeprefix(prefix)


def _name(name: Any) -> str:
    text = _text("name", name)
    if text is None:
        raise TypeError("name has to be text: the name of the model")
    return text


class Call:
    """A tool call that a TestModel makes: `Call("lookup", q="abc")`."""

    def __init__(self, name: str, /, **args: Any) -> None:
        self.name = name
        self.args = args

    def __repr__(self) -> str:
        return f"Call({self.name!r}, {self.args})"


Answer = (
    str | Call | Exception | Sequence[str | Call] | Callable[[dict[str, Any]], "str | Call | Any"]
)
"""Text; a call; several of them in one turn; an exception to raise; or a function of the request
that returns any of these."""


class TestModel:
    """A model that gives these answers in turn.

        model = TestModel(Call("lookup", q="abc"), "It is there.")
        result = await Agent(model, tools=[lookup]).run("Where is abc?")

    `requests` holds the requests so far, as the Gemini API is sent them. A request after the last
    answer raises ProgramError.
    """

    __test__ = False  # no test, whatever its name
    name = "test"

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = answers

    def __repr__(self) -> str:
        return f"TestModel({len(self._answers)} answers, {len(self.requests)} requests)"

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The next answer."""
        body = encode_request(request)
        self.requests.append(msgspec.json.decode(body))
        if len(self.requests) > len(self._answers):
            raise ProgramError(
                f"this TestModel has no answer left: it was made with {len(self._answers)}, and "
                f"this is request {len(self.requests)}."
            )
        answer: Any = self._answers[len(self.requests) - 1]
        if callable(answer):
            answer = answer(self.requests[-1])
        if isinstance(answer, Exception):
            raise answer
        several = isinstance(answer, list | tuple)
        given = list(cast("Sequence[Any]", answer)) if several else [answer]
        parts = tuple(map(_part, given))
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts), finish_reason=FinishReason.STOP
        )
        prompt, output = len(body) // 4, sum(len(str(part)) for part in given) // 4
        usage = UsageMetadata(
            prompt_token_count=prompt,
            candidates_token_count=output,
            total_token_count=prompt + output,
        )
        return GenerateContentResponse(
            candidates=(candidate,), usage_metadata=usage, model_version=self.name
        )

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        """The next answer, in one piece."""
        yield await self.generate(request)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """An estimate: a quarter of the bytes."""
        del model
        return sum(map(len, contents)) // 4

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """No vectors."""
        del contents, model
        return EmbedContentResponse()

    async def aclose(self) -> None:
        """Nothing to close."""


def _part(item: Any) -> Part:
    if isinstance(item, str):
        return Part(text=item)
    if isinstance(item, Call):
        return Part(function_call=FunctionCall(name=item.name, args=item.args))
    raise TypeError(f"an answer of a TestModel is text or a Call, not {type(item).__name__}")
