"""The gateway as an ASGI application, protected by its key."""

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from alhena.errors import AlhenaError
from alhena.gateway.access_log import AccessLog, entry_of, line_of
from alhena.gateway.body import BodyTotal, ClientGoneError, read_body, read_json, weight_of
from alhena.gateway.dialects import (
    AnthropicDialect,
    ClientDialect,
    ClientRequest,
    GoogleDialect,
    OpenAiDialect,
    Reading,
    ResponsesDialect,
    reads_anthropic,
    reads_embeddings,
    reads_google,
    reads_openai,
    reads_responses,
)
from alhena.gateway.embeddings import EMBEDDING_MODEL
from alhena.gateway.exchange import AnswerTerms, Exchange, Headers, until_gone
from alhena.gateway.faults import Fault, FaultKind, fault_of, refusal_error
from alhena.gateway.stored import ResponseStore
from alhena.gateway.upstream import ModelNames, Upstream, UpstreamRequest
from alhena.http.addresses import is_loopback
from alhena.models.catalogue import ModelInfo, model_info
from alhena.wire.content import encode_value

_SINCE = 1735689600
"""A placeholder for the models' creation time, which both dialects require."""
_SINCE_TEXT = "2025-01-01T00:00:00Z"
_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_EMBEDDING_METHODS = ["embedContent", "batchEmbedContents"]


Tell = Callable[[str, ModelNames, str], dict[str, Any]]
"""Lists models in a dialect, or describes the named one."""


def list_models(dialect: str, names: ModelNames, name: str = "") -> dict[str, Any]:
    """All models, in one page."""
    del name
    found = names.list_models()
    if dialect == GoogleDialect.name:
        embedding = [model_info(EMBEDDING_MODEL)] if names.gemini else []
        return {"models": [_google(info) for info in (*found, *embedding)]}
    if dialect == AnthropicDialect.name:
        data = [_anthropic(info) for info in found]
        first, last = data[0]["id"], data[-1]["id"]
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": [_openai(info) for info in found]}


def describe_model(dialect: str, names: ModelNames, name: str) -> dict[str, Any]:
    """One model. Raises GatewayRefusalError."""
    info = names.find_model(name)
    if info is None:
        raise refusal_error(FaultKind.NO_MODEL, f"there is no model {name[:100]!r} here.")
    if dialect == GoogleDialect.name:
        return _google(info)
    return _anthropic(info) if dialect == AnthropicDialect.name else _openai(info)


def _openai(info: ModelInfo) -> dict[str, Any]:
    told = {"id": info.name, "object": "model", "created": _SINCE, "owned_by": "alhena"}
    return told | {"context_window": info.input_limit, "max_output_tokens": info.output_limit}


def _anthropic(info: ModelInfo) -> dict[str, Any]:
    return {
        "type": "model",
        "id": info.name,
        "display_name": info.name,
        "created_at": _SINCE_TEXT,
        "lifecycle": "active",
        "max_input_tokens": info.input_limit,
        "max_tokens": info.output_limit,
    }


def _google(info: ModelInfo) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": f"models/{info.name}",
        "displayName": info.name,
        "inputTokenLimit": info.input_limit,
        "supportedGenerationMethods": _METHODS,
    }
    if info.tier == "embedding":
        told["supportedGenerationMethods"] = _EMBEDDING_METHODS
    if info.output_limit is not None:
        told["outputTokenLimit"] = info.output_limit
    return told


class Guard:
    """Authorizes requests.

    With a `key` requests must send it: as a bearer token, in x-api-key or in x-goog-api-key, or in
    the address of one of Gemini's paths.
    Without one only this machine can reach the gateway, and no page in its browser: Host must name
    this machine (a page can rebind its own name to it), a request must not say that a page sent it,
    and a posted body must not be of a kind that a form can send.
    """

    def __init__(self, key: str = "") -> None:
        self._key = key.encode("utf-8")

    def check(self, headers: Mapping[str, str], method: str = "GET", parameter: str = "") -> None:
        """Raises GatewayRefusalError. `parameter` is a key in the address."""
        if not self._key:
            _require_local(headers)
            if method == "POST":
                _require_json(headers)
            return
        shown = [*_read_credentials(headers), *([parameter.encode()] if parameter else [])]
        if not shown:
            raise refusal_error(
                FaultKind.UNAUTHENTICATED,
                "no key was given: send it as a bearer token, x-api-key or x-goog-api-key.",
            )
        if not any(hmac.compare_digest(one, self._key) for one in shown):
            raise refusal_error(FaultKind.UNAUTHENTICATED, "the key is not the gateway's.")


def _read_credentials(headers: Mapping[str, str]) -> list[bytes]:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    found = [token if scheme.lower() == "bearer" else ""]
    found += [headers.get("x-api-key", ""), headers.get("x-goog-api-key", "")]
    # Header values are latin-1 here; a UTF-8 key must be compared with the sent bytes.
    return [value.strip().encode("latin-1", "replace") for value in found if value.strip()]


_OWN_SITES = ("", "none", "same-origin")
"""Values of Sec-Fetch-Site of requests that no page of another origin sent."""


def _require_local(headers: Mapping[str, str]) -> None:
    host = headers.get("host", "")
    if not _is_local(f"//{host}"):
        raise refusal_error(
            FaultKind.FORBIDDEN,
            f"the header Host names {host[:100]!r}, which is not this machine; "
            "run the gateway with a key to use it under another name.",
        )
    page = headers.get("origin")
    if page is None and headers.get("sec-fetch-site", "") not in _OWN_SITES:
        page = headers.get("referer", "of another site")
    if page is not None:
        raise refusal_error(
            FaultKind.FORBIDDEN,
            f"a web page ({page[:100]!r}) sent the request, and without a key no page may use the "
            "gateway, not even one of this machine; run the gateway with a key, and send it.",
        )


def _require_json(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise refusal_error(
            FaultKind.FORBIDDEN,
            f"the body is declared as {kind[:100]!r}, and without a key the gateway "
            "takes no body that a web page could have sent; "
            "send content-type: application/json, or run the gateway with a key.",
        )


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


_GOOGLE_VERSIONS = ("/v1beta", "/v1alpha")
_NAMED_PATHS = ("/v1/messages", "/v1/chat/", "/v1/embeddings", "/v1/responses")
_GONE = 499
_LARGE = 256 * 1024
"""Bytes of a body above which it is read in a thread."""
_HEAVY = 512 * 1024
"""The same for the memory of its values."""


class Gateway:
    """Answers requests with `upstream` that `guard` authorizes, within `limits`."""

    def __init__(self, upstream: Upstream, guard: Guard, terms: AnswerTerms) -> None:
        self.upstream = upstream
        self._guard = guard
        self._terms = terms
        self._limits = limits = terms.limits
        self._bodies = BodyTotal(limits.bodies_bytes)
        self._under_way = 0
        self.store = ResponseStore()
        self._reader = asyncio.Lock()

    def posting(self, reading: Reading) -> ASGIApp:
        """The endpoint for requests read by `reading`."""

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            speech = dialect_for(request, self.store)
            exchange = self._exchange(request, send, speech)

            async def work() -> None:
                await self._answer(exchange, request, reading)

            await self._carry(exchange, request, work)

        return _Asgi(endpoint)

    def telling(self, tell: Tell) -> ASGIApp:
        """The endpoint that returns a value without asking the model."""

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            speech = dialect_for(request)
            exchange = self._exchange(request, send, speech)

            async def work() -> None:
                name = str(request.path_params.get("name", ""))
                await exchange.reply(200, tell(speech.name, self.upstream.names, name))

            await self._carry(exchange, request, work)

        return _Asgi(endpoint)

    async def serve_stored(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The endpoint that shows or removes a stored answer, or lists the items before it."""
        request = Request(scope, receive)
        exchange = self._exchange(request, send, dialect_for(request, self.store))

        async def work() -> None:
            answer_id = str(request.path_params["id"])
            answer = self.store.answer(answer_id)
            if answer is None:
                message = f"there is no answer {answer_id[:100]!r} here (any more)."
                raise refusal_error(FaultKind.NOT_FOUND, message)
            if request.url.path.endswith("/input_items"):
                newest_first = request.query_params.get("order") != "asc"
                answer = _list_items(self.store.input_items(answer_id) or [], newest_first)
            elif request.method == "DELETE":
                self.store.drop(answer_id)
                answer = {"id": answer_id, "object": "response", "deleted": True}
            await exchange.reply(200, answer)

        await self._carry(exchange, request, work)

    def _exchange(self, request: Request, send: Send, speech: ClientDialect) -> Exchange:
        entry = entry_of(request.scope)
        entry.dialect = speech.name
        return Exchange(send, speech, entry, self._terms, line_of(request.scope))

    async def _carry(
        self, exchange: Exchange, request: Request, work: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            is_google = exchange.speech.name == GoogleDialect.name
            parameter = request.query_params.get("key", "") if is_google else ""
            self._guard.check(request.headers, request.method, parameter)
            await work()
        except ClientGoneError:
            exchange.entry.outcome = exchange.entry.outcome or "client gone"
            exchange.entry.status = exchange.entry.status or _GONE
        except AlhenaError as error:
            await exchange.refuse(fault_of(error))

    async def _answer(self, exchange: Exchange, request: Request, reading: Reading) -> None:
        if self._under_way >= self._limits.concurrent:
            raise refusal_error(FaultKind.BUSY, "too many requests at a time.", retry_after_s=1)
        self._under_way += 1
        held = 0

        def take(count: int) -> None:
            nonlocal held
            self._bodies.take(count)
            held += count

        try:
            body = await read_body(request, self._limits, take, self._terms.closing)
            exchange.entry.bytes_in = len(body)
            weight = await self._weigh_body(body)
            take(weight)
            asked, question = await self._read(body, weight, request, reading)
            exchange.entry.model = asked.request.model[:200]
            exchange.entry.stream = asked.request.stream
            exchange.entry.served_by = question.request.model
            del body
            try:
                await until_gone(request.receive, self._ask(exchange, asked, question))
            finally:
                exchange.entry.served_by = question.request.model
        finally:
            self._under_way -= 1
            self._bodies.give_back(held)

    async def _weigh_body(self, body: bytes) -> int:
        limit = self._limits.values_bytes
        if len(body) <= _LARGE:
            return weight_of(body, limit)
        return await asyncio.to_thread(weight_of, body, limit)

    async def _read(
        self, body: bytes, weight: int, request: Request, reading: Reading
    ) -> tuple[ClientRequest, UpstreamRequest]:
        """Reads a request and prepares it for the model. A large body, or one with many values, is
        read in a thread, so that other requests do not wait; one at a time, because the loop shares
        the interpreter with all busy threads."""

        def read() -> tuple[ClientRequest, UpstreamRequest]:
            asked = reading(read_json(body), request)
            if asked.embeds is not None:
                return asked, self.upstream.prepare_embedding(asked.request)
            return asked, self.upstream.prepare(asked.request, own=asked.own)

        if len(body) <= _LARGE and weight <= _HEAVY:
            return read()
        async with self._reader:
            return await asyncio.to_thread(read)

    async def _ask(
        self, exchange: Exchange, asked: ClientRequest, question: UpstreamRequest
    ) -> None:
        entry = exchange.entry
        exchange.headers = _left_out(question.left_out)
        if asked.embeds is not None:
            vectors = self.upstream.embed(question.request.model, asked.embeds.contents)
            await exchange.reply(200, asked.embeds.write(await exchange.within_time(vectors)))
        elif asked.counts:
            tokens = await exchange.within_time(self.upstream.count(question))
            entry.input_tokens = tokens
            await exchange.reply(200, exchange.speech.count(tokens))
        elif asked.request.stream:
            form = exchange.speech.stream(asked.request)
            await exchange.stream(self.upstream.stream(question), form)
        else:
            response = await exchange.within_time(self.upstream.answer(question))
            entry.count(response)
            await exchange.reply(200, exchange.speech.whole(response, asked.request))


def _list_items(items: list[dict[str, Any]], newest_first: bool) -> dict[str, Any]:
    """The items in one page."""
    data = items[::-1] if newest_first else items
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "has_more": False, "first_id": first, "last_id": last}


def _left_out(kinds: tuple[str, ...]) -> Headers:
    """The header that names tools which could not be declared to the model."""
    names = ", ".join(re.sub(r"[^\w.-]", "_", kind, flags=re.ASCII)[:60] for kind in kinds[:100])
    return [(b"x-alhena-left-out", names.encode("ascii"))] if names else []


class _Asgi:
    """An ASGI function as an object, which Route accepts unchanged."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        await self._app(scope, receive, send)


def gateway_app(
    upstream: Upstream, guard: Guard, terms: AnswerTerms, log: Callable[[str], None]
) -> ASGIApp:
    """Builds the application. `log` gets a line of JSON for each request."""
    gateway = Gateway(upstream, guard, terms)
    post, get = ["POST"], ["GET"]
    google = gateway.posting(reads_google)
    asks_responses = reads_responses(gateway.store)
    routes = [
        Route("/", _Asgi(_root), methods=get),
        Route("/healthz", _Asgi(_health), methods=get),
        Route("/v1/messages", gateway.posting(reads_anthropic), methods=post),
        Route("/v1/messages/count_tokens", gateway.posting(reads_anthropic), methods=post),
        Route("/v1/chat/completions", gateway.posting(reads_openai), methods=post),
        Route("/v1/embeddings", gateway.posting(reads_embeddings), methods=post),
        Route("/v1/responses", gateway.posting(asks_responses), methods=post),
        Route("/v1/responses/input_tokens", gateway.posting(asks_responses), methods=post),
        Route("/v1/responses/{id}", _Asgi(gateway.serve_stored), methods=["GET", "DELETE"]),
        Route("/v1/responses/{id}/input_items", _Asgi(gateway.serve_stored), methods=get),
        Route("/v1/models", gateway.telling(list_models), methods=get),
        Route("/v1/models/{name:path}", gateway.telling(describe_model), methods=get),
        Route("/v1/models/{name:path}", google, methods=post),
    ]
    for version in _GOOGLE_VERSIONS:
        path = f"{version}/models"
        routes += [
            Route(path, gateway.telling(list_models), methods=get),
            Route(f"{path}/{{name:path}}", gateway.telling(describe_model), methods=get),
            Route(f"{path}/{{name:path}}", google, methods=post),
        ]
    handlers = {HTTPException: _no_such_thing, Exception: _defect}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return AccessLog(app, log)


def dialect_for(request: Request, store: ResponseStore | None = None) -> ClientDialect:
    """The dialect of a request: determined by its path, or by its headers for a path shared by
    several dialects (the list of models) or by none."""
    path, headers = request.url.path, request.headers
    asks_google = request.method == "POST" and path.startswith("/v1/models/")
    shared = not path.startswith(_NAMED_PATHS)
    if asks_google or path.startswith(_GOOGLE_VERSIONS) or (shared and _is_google(request)):
        return GoogleDialect(sse=request.query_params.get("alt") == "sse")
    if path.startswith("/v1/messages") or (shared and "anthropic-version" in headers):
        return AnthropicDialect()
    if store is not None and path.startswith("/v1/responses"):
        return ResponsesDialect(store)
    return OpenAiDialect()


def _is_google(request: Request) -> bool:
    headers = request.headers
    named = "x-goog-api-client" in headers or "x-goog-api-key" in headers
    return named or "key" in request.query_params


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    response = Response(b'{"status":"ok"}', media_type="application/json")
    await response(scope, receive, send)


async def _root(scope: Scope, receive: Receive, send: Send) -> None:
    """HEAD / is how clients of Anthropic ask if the server is there."""
    if scope["method"] != "HEAD":
        raise HTTPException(404)
    await _health(scope, receive, send)


def _fault_response(request: Request, fault: Fault) -> Response:
    speech = dialect_for(request)
    entry = entry_of(request.scope)
    entry.dialect, entry.outcome = speech.name, fault.kind
    form = speech.error(fault)
    return Response(encode_value(form.body), form.status, media_type="application/json")


def _no_such_thing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    what = f"{request.method} {request.url.path[:200]}"
    if status == 405:
        fault = Fault(kind=FaultKind.METHOD, message=f"{what}: there is no such method here.")
    else:
        fault = Fault(kind=FaultKind.NOT_FOUND, message=f"{what}: there is nothing here.")
    return _fault_response(request, fault)


def _defect(request: Request, error: Exception) -> Response:
    """The answer to a defect, which the server logs with its traceback; the client is not at
    fault."""
    message = f"an unexpected {type(error).__name__} in the gateway; its log says where."
    return _fault_response(request, Fault(kind=FaultKind.INTERNAL, message=message))
