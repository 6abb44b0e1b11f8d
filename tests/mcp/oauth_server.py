"""A server of the official SDK that wants to know who asks, and who signs people in for it.

Both are one real HTTP server on the loopback. It checks all it is told; `odd` overrides an answer.
"""

import asyncio
import base64
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

Odd = Callable[[Request, dict[str, str]], Response | None]
PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"


class OAuthServer:
    """`tokens` are the access tokens that are taken; a refresh token is good once."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.mcp = f"{self.url}/mcp"
        self.begin()

    def begin(self) -> None:
        """As it is when nobody has ever asked it anything."""
        self.tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.shown: list[str | None] = []
        self.odd: dict[str, Odd] = {}
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "scopes_supported": ["tools"],
        }
        self.resource: dict[str, Any] = {
            "resource": self.mcp,
            "authorization_servers": [self.url],
        }
        self.challenge = f'Bearer resource_metadata="{self.url}{PRM}", scope="tools"'
        self.expires_in: int | None = 3600
        self.secret: str | None = None
        self.given = 0
        self.scopes: dict[str, str] = {}
        self.step_up = ""
        self.iss = self.url
        self.takes_resource = True

    def answers(self, path: str, answer: Callable[[], Response]) -> None:
        """From now on the same answer for a path."""
        self.odd[path] = lambda _request, _form: answer()

    def count(self, path: str) -> int:
        return sum(1 for _, asked, _ in self.asked if asked == path)

    def form(self, path: str) -> dict[str, str]:
        """Last form posted to a path."""
        return [form for _, asked, form in self.asked if asked == path][-1]

    async def oauth(self, request: Request) -> Response:
        """The authorization server."""
        body = (await request.body()).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        form |= dict(request.query_params)
        if "authorization" in request.headers:
            form["authorization"] = request.headers["authorization"]
        path = request.url.path
        self.asked.append((request.method, path, form))
        odd = self.odd.get(path)
        answer = None if odd is None else odd(request, form)
        if answer is not None:
            return answer
        match path:
            case "/authorize":
                return self._authorize(form)
            case "/token":
                return self._token(form)
            case "/register":
                return self._register(await request.json())
            case _ if path == PRM:
                return JSONResponse(self.resource)
            case _ if path == ASM:
                return JSONResponse(self.metadata)
            case _:
                return Response(status_code=404)

    def _register(self, wanted: dict[str, Any]) -> Response:
        client = f"client-{len(self.clients)}"
        self.clients[client] = wanted
        method = "none" if self.secret is None else "client_secret_basic"
        told = {**wanted, "client_id": client, "token_endpoint_auth_method": method}
        if self.secret is not None:
            told["client_secret"] = self.secret
        return JSONResponse(told, status_code=201)

    def _authorize(self, asked: dict[str, str]) -> Response:
        """The person agrees."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        if not self.takes_resource and "resource" in asked:
            error = {"error": "invalid_target", "error_description": "AADSTS9010010: resource"}
            back = {"state": asked["state"], **error}
            return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")
        assert asked.get("resource") == (self.mcp if self.takes_resource else None)
        code = f"code-{len(self.codes)}-very-secret"
        self.codes[code] = asked
        back = {"state": asked["state"], "code": code, "iss": self.iss}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    def _token(self, form: dict[str, str]) -> Response:
        if self.secret is not None:
            pair = base64.b64encode(f"{form['client_id']}:{self.secret}".encode()).decode()
            assert form["authorization"] == f"Basic {pair}"
            assert "client_secret" not in form
        assert form.get("resource") == (self.mcp if self.takes_resource else None)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            self.refresh_tokens.remove(form["refresh_token"])
            return self.grant()
        asked = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert asked["redirect_uri"] == form["redirect_uri"]
        assert asked["client_id"] == form["client_id"]
        return self.grant(asked.get("scope", ""))

    def grant(self, scope: str = "") -> Response:
        """New tokens, of which the first has these scopes."""
        self.given += 1
        access, refresh = f"access-{self.given}-very-secret", f"refresh-{self.given}-very-secret"
        self.tokens.add(access)
        self.scopes[access] = scope
        self.refresh_tokens.add(refresh)
        told = {"access_token": access, "token_type": "bearer", "refresh_token": refresh}
        if self.expires_in is not None:
            told["expires_in"] = str(self.expires_in)
        return JSONResponse(told)

    def permits(self, token: str) -> bool:
        """True if a token has all scopes the server now requires."""
        return set(self.step_up.split()) <= set(self.scopes.get(token, "").split())

    def guarded(self, inner: ASGIApp) -> ASGIApp:
        """The MCP server behind its door."""

        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            doors = ("/mcp", "/sse", "/messages/")
            if scope["type"] != "http" or scope["path"] not in doors:
                await inner(scope, receive, send)
                return
            shown = dict(scope["headers"]).get(b"authorization", b"").decode() or None
            self.shown.append(shown)
            token = (shown or "").removeprefix("Bearer ")
            if token in self.tokens and self.permits(token):
                await inner(scope, receive, send)
                return
            if token in self.tokens:
                challenge = f'Bearer error="insufficient_scope", scope="{self.step_up}"'
                headers = {"WWW-Authenticate": challenge}
                await Response("no", status_code=403, headers=headers)(scope, receive, send)
                return
            refusal = Response(status_code=401, headers={"WWW-Authenticate": self.challenge})
            await refusal(scope, receive, send)

        return guard


@contextmanager
def running(*, sse: bool = False) -> Iterator[OAuthServer]:
    """The server for a block, over the transport of the first generation if asked for."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    world = OAuthServer(port)
    mcp = MCPServer("guarded")

    @mcp.tool()
    def echo(text: str) -> str:
        """Says it again."""
        return f"echo: {text}"

    assert echo
    app = mcp.sse_app() if sse else mcp.streamable_http_app()
    if sse:
        world.mcp = f"{world.url}/sse"
    for path in ("/authorize", "/token", "/register", "/.well-known/{rest:path}"):
        app.router.routes.append(Route(path, world.oauth, methods=["GET", "POST"]))
    assert isinstance(app, Starlette)
    config = uvicorn.Config(
        world.guarded(app), lifespan="on", log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
    )
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield world
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def redirect_of(url: str) -> dict[str, str]:
    """Query of an authorization URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
