"""The context window of a model, as servers of the OpenAI form tell it: vLLM, SGLang and LM Studio
in their list of models, llama.cpp in its properties, Ollama in the description of the model."""

import re
from collections.abc import Iterator
from typing import Any

from alhena.errors import AlhenaError, NetworkError
from alhena.http.addresses import Endpoint
from alhena.models.catalogue import OLLAMA, foreign_name
from alhena.models.providers.foreign import decode_object
from alhena.models.service import HttpService
from alhena.wire.content import encode_value
from alhena.wire.json_values import as_array, as_object

_IN_LIST = (
    *("max_model_len", "loaded_context_length", "max_context_length", "context_length"),
    *("context_window", "n_ctx"),
)
"""Fields of an entry of `/v1/models`, the first one counts."""
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)", re.MULTILINE)
_OF_OPENAI = "/v1"


def root_prefix(endpoint: Endpoint) -> str:
    """The path under which a server has what is not of OpenAI's API."""
    return endpoint.prefix.removesuffix(_OF_OPENAI)


async def read_window(http: HttpService, root: HttpService, model: str) -> int | None:
    """Tokens of the window of `model`, which may have a prefix; None if the server does not say.
    `http` asks OpenAI's API, `root` the paths beside it. Raises NetworkError where no server
    answers."""
    name = foreign_name(model)
    if model.startswith(OLLAMA):
        return await _ask_ollama(root, name) or find_in_list(await _ask(http, "/models"), name)
    found = find_in_list(await _ask(http, "/models"), name)
    return found or find_in_properties(await _ask(root, "/props")) or await _ask_ollama(root, name)


def find_in_list(answer: dict[str, Any], name: str) -> int | None:
    """The window in an answer of `/v1/models`."""
    entries = [as_object(each) or {} for each in as_array(answer.get("data")) or ()]
    own = [each for each in entries if each.get("id") == name]
    for entry in own or (entries if len(entries) == 1 else ()):
        places = (entry, as_object(entry.get("meta")) or {})
        for field in _IN_LIST:
            for place in places:
                if (tokens := _tokens(place.get(field))) is not None:
                    return tokens
    return None


def find_in_properties(answer: dict[str, Any]) -> int | None:
    """The window of one slot in an answer of llama.cpp's `/props`."""
    settings = as_object(answer.get("default_generation_settings")) or {}
    return _tokens(settings.get("n_ctx")) or _tokens(answer.get("n_ctx"))


def find_in_description(answer: dict[str, Any]) -> tuple[int | None, int | None]:
    """The window that the model's parameters set, and the longest it was trained for, in an answer
    of Ollama's `/api/show`."""
    parameters = answer.get("parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    info = as_object(answer.get("model_info")) or {}
    longest = (_tokens(item) for key, item in info.items() if key.endswith(".context_length"))
    return (int(found[1]) if found else None), next(filter(None, longest), None)


def find_loaded(answer: dict[str, Any], name: str) -> int | None:
    """The window with which a model is loaded, in an answer of Ollama's `/api/ps`."""
    for each in _entries(answer):
        if name in (each.get("name"), each.get("model"), f"{each.get('name')}".split(":")[0]):
            return _tokens(each.get("context_length"))
    return None


async def _ask_ollama(root: HttpService, name: str) -> int | None:
    body = encode_value({"model": name, "name": name})
    chosen, longest = find_in_description(await _ask(root, "/api/show", body))
    if longest is None:
        return chosen
    loaded = None if chosen else find_loaded(await _ask(root, "/api/ps"), name)
    return min(filter(None, (chosen, loaded, longest)))


async def _ask(http: HttpService, path: str, body: bytes | None = None) -> dict[str, Any]:
    """The answer to a request; empty for a server that has no such path."""
    try:
        return await http.ask(path, "models", body, decode_object)
    except NetworkError:
        raise
    except AlhenaError:
        return {}


def _entries(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (as_object(each) or {} for each in as_array(answer.get("models")) or ())


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
