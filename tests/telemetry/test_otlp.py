"""OpenTelemetry: what a collector on loopback receives, and what programs see of it."""

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from mcp.server.mcpserver import Context, MCPServer
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2,
    metrics_service_pb2_grpc,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from alhena import Agent, ConfigError, InProcessServer, RemoteAgent, Subagent, otel, tool
from alhena.errors import InterruptedRunError
from alhena.testing import Call, TestModel
from tests.agent.a2a_server import Stage, serving
from tests.support.command import ALHENA, alhena_process
from tests.support.server import Reply, ScriptedServer, call
from tests.telemetry.running import answer, calls, configure

pytestmark = pytest.mark.requirement("TEL-03")
SECRET = "a prompt of mine"


class Collector:
    """A collector; it decodes by the official messages."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []
        self.metrics: dict[str, Any] = {}
        self.spans: list[Any] = []
        self.raw = b""

    def take(self, message: Any) -> None:
        self.raw += message.SerializeToString()
        for group in getattr(message, "resource_logs", ()):
            for scope in group.scope_logs:
                self.logs += [_attributes(record.attributes) for record in scope.log_records]
        for group in getattr(message, "resource_metrics", ()):
            for scope in group.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope.metrics}
        for group in getattr(message, "resource_spans", ()):
            for scope in group.scope_spans:
                self.spans += scope.spans

    def names(self) -> list[str]:
        return [log["event.name"] for log in self.logs]

    def tree(self) -> list[str]:
        """Each span with the names above it."""
        by_id = {span.span_id: span for span in self.spans}

        def path(span: Any) -> str:
            above = by_id.get(span.parent_span_id)
            return span.name if above is None else f"{path(above)} > {span.name}"

        return sorted(path(span) for span in self.spans)

    def span(self, name: str) -> dict[str, Any]:
        (found,) = [span for span in self.spans if span.name == name]
        return _attributes(found.attributes) | {"status": found.status.code, "span": found}


def _attributes(pairs: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return [plain(item) for item in value.array_value.values]
        return getattr(value, kind)

    return {pair.key: plain(pair.value) for pair in pairs}


REQUESTS = {
    "/v1/logs": logs_service_pb2.ExportLogsServiceRequest,
    "/v1/metrics": metrics_service_pb2.ExportMetricsServiceRequest,
    "/v1/traces": trace_service_pb2.ExportTraceServiceRequest,
}


class HttpCollector(Collector):
    def __init__(self, status: int = 200) -> None:
        super().__init__()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(REQUESTS[self.path].FromString(body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class GrpcCollector(Collector):
    def __init__(self) -> None:
        super().__init__()
        self.server = grpc.server(futures.ThreadPoolExecutor(3))
        for services, messages, kind in (
            (logs_service_pb2_grpc, logs_service_pb2, "Logs"),
            (metrics_service_pb2_grpc, metrics_service_pb2, "Metrics"),
            (trace_service_pb2_grpc, trace_service_pb2, "Trace"),
        ):
            base = getattr(services, f"{kind}ServiceServicer")
            response = getattr(messages, f"Export{kind}ServiceResponse")

            def export(_self: Any, request: Any, _context: Any, made: Any = response) -> Any:
                self.take(request)
                return made()

            servicer = type(kind, (base,), {"Export": export})()
            getattr(services, f"add_{kind}ServiceServicer_to_server")(servicer, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.url = f"http://127.0.0.1:{port}"

    def close(self) -> None:
        self.server.stop(None).wait()


@pytest.fixture(params=["http", "grpc"])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    made = HttpCollector() if request.param == "http" else GrpcCollector()
    yield made
    made.close()


def model_of(server: ScriptedServer) -> dict[str, str]:
    return {"GEMINI_API_KEY": "k-0123456789", "GOOGLE_GEMINI_BASE_URL": server.url}


def sent_to(collector: Any, **more: Any) -> dict[str, Any]:
    protocol = "grpc" if isinstance(collector, GrpcCollector) else "http"
    return {"enabled": True, "otlpEndpoint": collector.url, "otlpProtocol": protocol, **more}


def test_a_run_arrives_whole_in_traces_logs_and_metrics(
    server: ScriptedServer, project: Path, home: Path, collector: Collector
):
    configure(home, **sent_to(collector))
    server.reply(
        calls(call("run_shell_command", {"command": "echo $TRACEPARENT"}, id="c")), answer()
    )
    ran = alhena_process("-y", "--skip-trust", "-p", SECRET, **model_of(server))
    assert (ran.code, ran.out, ran.err) == (0, "done\n", "")
    model = "gemini-3.8-flash"
    assert collector.tree() == [
        "invoke_agent",
        "invoke_agent > turn",
        "invoke_agent > turn",
        f"invoke_agent > turn > chat {model}",
        f"invoke_agent > turn > chat {model}",
        "invoke_agent > turn > execute_tool run_shell_command",
    ]
    executed = collector.span("execute_tool run_shell_command")
    assert executed["gen_ai.operation.name"] == "execute_tool"
    assert executed["gen_ai.tool.name"] == "run_shell_command"
    assert executed["gen_ai.tool.call.id"]
    chat = next(span for span in collector.spans if span.name.startswith("chat "))
    told = _attributes(chat.attributes)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == told["gen_ai.response.model"] == model
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (11, 5)
    conversation = {
        _attributes(span.attributes)["gen_ai.conversation.id"] for span in collector.spans
    }
    assert len(conversation) == 1
    names = collector.names()
    assert names[0] == "gemini_cli.config"
    assert {"gemini_cli.user_prompt", "gemini_cli.api_response", "gemini_cli.tool_call"} <= {*names}
    assert {"gemini_cli.token.usage", "gen_ai.client.operation.duration"} <= {*collector.metrics}
    assert SECRET.encode() not in collector.raw
    span = executed["span"]
    traceparent = f"00-{span.trace_id.hex()}-{span.span_id.hex()}-0"
    assert traceparent in str(server.requests[1].json["contents"][-1])


def test_prompts_are_sent_when_asked_for_and_without_credentials(
    server: ScriptedServer, home: Path
):
    collector = HttpCollector()
    configure(home, **sent_to(collector, logPrompts=True, traces=False))
    server.reply(answer())
    ran = alhena_process("-p", f"{SECRET}, key k-0123456789", **model_of(server))
    collector.close()
    assert ran.err == ""
    (prompt,) = [log["prompt"] for log in collector.logs if "prompt" in log]
    assert prompt.startswith(SECRET)
    assert b"k-0123456789" not in collector.raw
    assert collector.spans == []
    assert collector.metrics


def test_the_environment_names_the_endpoint_the_service_and_the_parent(server: ScriptedServer):
    collector = HttpCollector()
    server.reply(answer())
    above = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    told = {"GEMINI_TELEMETRY_ENABLED": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    ran = alhena_process(
        "-p", "go", TRACEPARENT=above, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf", **told,
        **model_of(server), OTEL_SERVICE_NAME="my-agent",
    )  # fmt: skip
    collector.close()
    assert ran.err == ""
    root = collector.span("invoke_agent")["span"]
    assert b"my-agent" in collector.raw
    assert root.trace_id.hex() == above.split("-")[1]
    assert root.parent_span_id.hex() == above.split("-")[2]


def test_prompts_of_a_batch_are_in_the_spans_of_their_tasks(
    server: ScriptedServer, home: Path, project: Path
):
    tasks = "".join(json.dumps({"id": each, "prompt": each}) + "\n" for each in ("t1", "t2"))
    (project / "tasks.jsonl").write_text(tasks, encoding="utf-8")
    collector = HttpCollector()
    configure(home, **sent_to(collector))
    server.reply(answer(), Reply(status=400))
    ran = alhena_process(
        *("batch", "tasks.jsonl", "--out", "r.jsonl", "--concurrency", "1"), **model_of(server)
    )
    collector.close()
    assert ran.code == 1
    found = [_attributes(span.attributes) for span in collector.spans if span.name == "batch_task"]
    assert sorted(each["alhena.batch.task"] for each in found) == ["t1", "t2"]
    (failed,) = [each for each in found if "error.type" in each]
    assert failed["error.type"] == "error"
    prompts = [each for each in collector.tree() if each.endswith("invoke_agent")]
    assert prompts == ["batch_task > invoke_agent"] * 2


def test_the_variables_of_opentelemetry_alone_switch_nothing_on(server: ScriptedServer):
    collector = HttpCollector()
    server.reply(answer())
    alhena_process("-p", "go", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **model_of(server))
    collector.close()
    assert collector.raw == b""


def test_a_file_counts_before_an_endpoint(server: ScriptedServer, home: Path, project: Path):
    collector = HttpCollector()
    configure(home, **sent_to(collector, outfile=str(project / "out.log")))
    server.reply(answer())
    alhena_process("-p", "go", **model_of(server))
    collector.close()
    assert collector.raw == b""
    assert (project / "out.log").stat().st_size


def test_a_failing_run_is_sent_with_its_error(server: ScriptedServer, home: Path):
    collector = HttpCollector()
    configure(home, **sent_to(collector))
    server.reply(Reply(status=400))
    ran = alhena_process("-p", "go", **model_of(server))
    collector.close()
    assert ran.code != 0
    assert collector.span("invoke_agent")["status"] == 2
    assert "gemini_cli.api_error" in collector.names()
    assert collector.span("chat gemini-3.8-flash")["error.type"] == "400"


@pytest.mark.parametrize("trouble", ["down", "500"])
def test_a_collector_in_trouble_is_one_warning_and_the_run_goes_on(
    server: ScriptedServer, home: Path, trouble: str
):
    collector = HttpCollector(500)
    if trouble == "down":
        collector.close()
    configure(home, **sent_to(collector))
    server.reply(answer())
    ran = alhena_process("-p", "go", **model_of(server))
    if trouble != "down":
        collector.close()
    assert (ran.code, ran.out) == (0, "done\n")
    (line,) = ran.err.splitlines()
    assert "warning: telemetry: " in line
    assert collector.url in line
    assert "missing" in line


def test_the_target_gcp_without_an_endpoint_says_that_it_needs_a_collector(
    server: ScriptedServer, home: Path
):
    configure(home, enabled=True, target="gcp")
    server.reply(answer())
    ran = alhena_process("-p", "go", **model_of(server))
    assert (ran.code, ran.out) == (0, "done\n")
    assert "collector that exports to Google Cloud" in ran.err.splitlines()[0]


def test_the_target_gcp_is_the_collector_that_is_named(server: ScriptedServer, home: Path):
    collector = HttpCollector()
    configure(home, **sent_to(collector))
    server.reply(answer())
    ran = alhena_process("-p", "go", **model_of(server), GEMINI_TELEMETRY_TARGET="gcp")
    collector.close()
    assert (ran.code, ran.err) == (0, "")
    assert "gemini_cli.api_response" in collector.names()


def test_without_the_extra_one_line_names_it(server: ScriptedServer, home: Path, project: Path):
    configure(home, enabled=True)
    (project / "opentelemetry").mkdir()
    (project / "opentelemetry" / "__init__.py").touch()
    server.reply(answer())
    ran = subprocess.run(
        [ALHENA, "-p", "go"],
        env=os.environ | model_of(server) | {"PYTHONPATH": str(project)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    (line,) = ran.stderr.splitlines()
    assert "[otel]" in line


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(tracer_provider=provider)
    yield exporter
    otel.uninstrument()


def paths(exporter: InMemorySpanExporter) -> list[str]:
    done = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in done}

    def path(span: Any) -> str:
        above = span.parent and by_id.get(span.parent.span_id)
        return span.name if above is None else f"{path(above)} > {span.name}"

    return sorted(map(path, done))


async def test_a_program_sees_hooks_subagents_and_approvals(
    project: Path, spans: InMemorySpanExporter
):
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    helper = Subagent(name="helper", description="Helps.", instructions="Help.", tools=[pay])
    model = TestModel(
        Call("delegate_to_agent", agent_name="helper", objective="Pay."),
        Call("pay", amount=5),
        Call("complete_task", result="It is paid."),
        "Done.",
    )
    agent = Agent(
        model,
        agents=[helper],
        tools=[pay],
        approve="always",
        hooks={"BeforeTool": lambda _given: None},
        cwd=project,
        isolated=True,
    )
    assert await agent.ask("Go.") == "Done."
    found = paths(spans)
    inside = "invoke_agent > turn > execute_tool delegate_to_agent > invoke_agent"
    assert f"{inside} > chat test" in found
    assert f"{inside} > execute_tool pay" in found
    assert any(path.endswith("hook BeforeTool") for path in found)
    (paid,) = [span for span in spans.get_finished_spans() if span.name == "execute_tool pay"]
    assert [event.name for event in paid.events] == [
        "confirmation requested",
        "confirmation answered",
    ]


async def test_a_run_is_inside_the_current_span_and_its_failures_are_errors(
    project: Path, spans: InMemorySpanExporter
):
    def break_down() -> str:
        """Breaks."""
        raise ValueError("broken")

    provider = TracerProvider()
    model = TestModel(Call("break_down"), "Sorry.")
    with provider.get_tracer("program").start_as_current_span("request") as outer:
        await Agent(model, tools=[break_down], cwd=project, isolated=True).ask("Go.")
    done = {span.name: span for span in spans.get_finished_spans()}
    root = done["invoke_agent"]
    assert root.parent is not None
    assert root.parent.span_id == outer.get_span_context().span_id
    broken = done["execute_tool break_down"]
    assert broken.attributes is not None
    assert not broken.status.is_ok
    assert broken.attributes["error.type"]


async def test_a_server_of_tools_is_told_the_span_of_its_call(
    project: Path, spans: InMemorySpanExporter
):
    server = MCPServer("tools")

    @server.tool()
    def parent(ctx: Context) -> str:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
        """The trace context of this call."""
        return str(ctx.request_context.meta)

    model = TestModel(Call("parent"), "Done.")
    agent = Agent(
        model,
        servers={"tools": InProcessServer(server)},
        approve="always",
        cwd=project,
        isolated=True,
    )
    await agent.ask("Go.")
    (called,) = [each for each in spans.get_finished_spans() if each.name.startswith("execute")]
    context = called.get_span_context()
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}"
    assert expected in str(model.requests[1]["contents"][-1])


async def test_a_remote_agent_is_told_the_span_of_its_work(
    project: Path, spans: InMemorySpanExporter
):
    async def answers(stage: Stage) -> None:
        await stage.answer("Hello.")

    model = TestModel(Call("delegate_to_agent", agent_name="far", objective="Greet."), "Done.")
    async with serving(answers) as remote:
        agents = [RemoteAgent(name="far", card=remote.url)]
        agent = Agent(model, agents=agents, approve="always", cwd=project, isolated=True)
        await agent.ask("Go.")
    done = spans.get_finished_spans()
    (far,) = [each for each in done if (each.attributes or {}).get("gen_ai.agent.name") == "far"]
    assert far.context is not None
    expected = f"00-{far.context.trace_id:032x}-{far.context.span_id:016x}-"
    described, *work = remote.headers  # before there is work, the card is read for the model
    assert "agent-card" in described["user-agent"]
    assert "/a2a" in remote.paths[1:]
    assert all(headers["traceparent"].startswith(expected) for headers in work)


async def test_an_interrupted_run_leaves_no_span_open(project: Path, spans: InMemorySpanExporter):
    started = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        started.set()
        await asyncio.sleep(60)
        return ""

    async with Agent(TestModel(Call("wait")), tools=[wait], cwd=project, isolated=True) as agent:
        run = asyncio.ensure_future(agent.ask("Go."))
        await started.wait()
        agent.interrupt()
        with pytest.raises(InterruptedRunError):
            await run
    names = [span.name for span in spans.get_finished_spans()]
    assert {"invoke_agent", "turn", "execute_tool wait"} <= {*names}


def test_after_uninstrument_nothing_is_reported(project: Path, spans: InMemorySpanExporter):
    otel.uninstrument()
    Agent(TestModel("x"), cwd=project, isolated=True).ask_sync("Go.")
    assert spans.get_finished_spans() == ()


def test_instrument_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setattr("alhena.telemetry.options.is_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"\[otel\]"):
        otel.instrument()
