"""Models of OpenAI-compatible servers: OpenAI, Ollama, llama.cpp, vLLM and others."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from alhena.http.client import Timeouts
from alhena.http.connect import Endpoint, endpoint_from, is_header_value
from alhena.models.catalogue import foreign_name
from alhena.models.errors import CredentialsError
from alhena.models.generator import WithoutEmbeddings
from alhena.models.providers.foreign import (
    answer_chunks,
    decode_event,
    decode_object,
    foreign_key,
    ids_for_calls,
    tool_names,
    unreadable,
)
from alhena.models.service import FixedAccess, HttpService, idle_s
from alhena.wire.content import Content, encode_value
from alhena.wire.dialects import openai
from alhena.wire.dialects.conversation import DialectRequest, ToolNames
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.results import beside_results
from alhena.wire.encode import EncodedContent
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_PAGE = "https://platform.openai.com/api-keys"

_BYTES_PER_TOKEN = 4
_OWN_HOSTS = ("openai.com", "openai.azure.com")
_ACCOUNT = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}


class OpenAiCompatible(WithoutEmbeddings):
    """A ContentGenerator. Model names may have the prefix `openai:`.

    Thoughts of earlier answers are dropped, media in tool results follow them: most servers reject
    either. Opens nothing before the first request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str = "",
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        access = {"authorization": f"Bearer {key}"} if key else {}
        self.endpoint = endpoint
        self._new_id = ids_for_calls()
        self._http = HttpService(
            endpoint,
            FixedAccess(access, f"Set OPENAI_API_KEY to a valid key ({KEY_PAGE})."),
            environ=environ,
            timeouts=timeouts,
            headers=headers,
        )

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        model = foreign_name(request.model)
        names = tool_names(request)
        body = self._body(request, names, stream=False)
        path = "/chat/completions"
        answer = await self._http.ask(
            path, model, body, decode_object, request.pause, idle_s(request)
        )
        try:
            return openai.read_response(answer, names, self._new_id)
        except DialectError as error:
            raise unreadable(error) from error

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """Yields the answer in chunks, with calls in the last one. Raises StreamCutError when the
        stream ends before the answer."""
        names = tool_names(request)
        body = self._body(request, names, stream=True)  # its errors are not an answer's
        model, path = foreign_name(request.model), "/chat/completions"
        events = self._http.events(
            path, model, lambda: body, decode_event, request.pause, idle_s(request)
        )
        chunks = answer_chunks(
            events,
            openai.EventReader(names, self._new_id),
            self.endpoint.place,
            is_last=lambda event: event is None,
            is_whole=_is_end,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Estimates by size: the dialect has no counting method."""
        del model
        return -(-sum(map(len, contents)) // _BYTES_PER_TOKEN)

    async def models(self) -> tuple[str, ...]:
        """Names of the models the server has."""
        answer = await self._http.ask("/models", "models", None, decode_object)
        found = [as_object(item) or {} for item in as_array(answer.get("data")) or ()]
        return tuple(str(each["id"]) for each in found if each.get("id"))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    def _body(self, request: GenerateContentRequest, names: ToolNames, *, stream: bool) -> bytes:
        contents = (_without_thoughts(entry.content) for entry in request.contents)
        asked = DialectRequest(
            model=foreign_name(request.model),
            contents=beside_results([content for content in contents if content.parts]),
            config=request.config,
            stream=stream,
            include_usage=stream,
            names=names,
        )
        body = openai.write_request(asked, new_id=self._new_id)
        if not self.endpoint.host.endswith(_OWN_HOSTS) and "max_completion_tokens" in body:
            # Other servers know the older name.
            body["max_tokens"] = body.pop("max_completion_tokens")
        return encode_value(body)


def openai_from(environ: Mapping[str, str], base_url: str | None = None) -> OpenAiCompatible:
    """Builds the client from the environment, for `base_url` if given.

    Reads OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_ORG_ID and OPENAI_PROJECT_ID, proxies and
    certificates. Raises ConfigError or CredentialsError.
    """
    endpoint = endpoint_from(environ, "OPENAI_BASE_URL", DEFAULT_BASE_URL, base_url)
    key = foreign_key(environ, "OPENAI_API_KEY", endpoint, KEY_PAGE)
    headers: dict[str, str] = {}
    for variable, name in _ACCOUNT.items():
        value = environ.get(variable, "").strip()
        if not is_header_value(value):
            raise CredentialsError(
                f"{variable} contains characters that no header can.", remedy="Correct or unset it."
            )
        if value:
            headers[name] = value
    return OpenAiCompatible(endpoint, key, environ=environ, headers=headers)


def _without_thoughts(content: Content) -> Content:
    parts = tuple(part for part in content.parts if not part.thought)
    return content if len(parts) == len(content.parts) else Content(role=content.role, parts=parts)


def _is_end(event: dict[str, Any] | None) -> bool:
    choices = as_array((event or {}).get("choices")) or ()
    return any((as_object(choice) or {}).get("finish_reason") for choice in choices)
