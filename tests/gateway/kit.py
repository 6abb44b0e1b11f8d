"""A gateway on loopback, in the event loop of the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from alhena.gateway.app import Guard, gateway_app
from alhena.gateway.body import Closing, GatewayLimits
from alhena.gateway.exchange import AnswerTerms
from alhena.gateway.server import GatewayServer, listening_socket
from alhena.gateway.upstream import ModelNames, Upstream
from alhena.models.generator import ContentGenerator
from tests.support.patience import PATIENCE_S

MODEL = "gemini-2.5-flash"
LIMITS = GatewayLimits(stop_s=0.5)


@dataclass
class Running:
    """`url` has no slash at its end; `lines` are those of the access log, read."""

    url: str
    port: int
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def logged(self, count: int = 1) -> list[dict[str, Any]]:
        """The log once it has so many lines: an entry is written behind the answer."""
        while len(self.lines) < count:
            await asyncio.sleep(0.005)
        return self.lines


@asynccontextmanager
async def gateway(
    generator: ContentGenerator,
    *,
    key: str = "",
    limits: GatewayLimits = LIMITS,
    model: str = MODEL,
    named: Mapping[str, str] | None = None,
    gemini: bool = True,
) -> AsyncIterator[Running]:
    listener = listening_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    running = Running(f"http://127.0.0.1:{port}", port)
    upstream = Upstream(generator, ModelNames(model, named, gemini=gemini))
    started = asyncio.Event()

    def log(line: str) -> None:
        running.lines.append(json.loads(line))

    terms = AnswerTerms(limits, Closing())
    app = gateway_app(upstream, Guard(key), terms, log)
    server = GatewayServer(app, terms, started=started.set, log=log)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await started.wait()
    try:
        yield running
    finally:
        server.stop()
        await task
        await upstream.aclose()


def client(running: Running, **options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=running.url, trust_env=False, timeout=PATIENCE_S, **options)
