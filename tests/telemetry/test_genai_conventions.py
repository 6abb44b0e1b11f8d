"""OpenTelemetry's conventions for GenAI on spans and records, read by the real SDK in memory."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from alhena import Agent, Subagent, otel, tool
from alhena.library.options import AgentOptions
from alhena.models import OpenAICompatible
from alhena.telemetry.options import SIGNALS, OtlpEndpoint
from alhena.telemetry.otlp import OtlpSink
from alhena.telemetry.records import TelemetryRecord
from alhena.testing import Call, TestModel
from tests.support.command import alhena_process
from tests.support.server import Reply, ScriptedServer, sse
from tests.telemetry.running import answer, configure
from tests.telemetry.test_otlp import HttpCollector, model_of, paths, sent_to

pytestmark = pytest.mark.requirement("TEL-03")
KEY = "k-0123456789"


class Seen:
    """The exporters of a program, and what they got."""

    def __init__(self) -> None:
        self.spans, self.logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.tracers, self.loggers = TracerProvider(), LoggerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))

    @property
    def finished(self) -> list[Any]:
        return list(self.spans.get_finished_spans())

    def span(self, name: str, number: int = 0) -> Any:
        return [each for each in self.spans.get_finished_spans() if each.name == name][number]

    def text(self, name: str, attribute: str, number: int = 0) -> Any:
        return json.loads(self.span(name, number).attributes[attribute])


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    otel.instrument(tracer_provider=made.tracers, logger_provider=made.loggers, texts=True)
    yield made
    otel.uninstrument()


async def test_spans_have_the_texts_and_those_of_a_tool_are_inside_it(project: Path, seen: Seen):
    tracer = seen.tracers.get_tracer("program")

    @tool
    def look_up(word: str) -> str:
        """Looks a word up."""
        with tracer.start_as_current_span("sync work"):
            return f"{word} means a kestrel, {KEY}"

    @tool
    async def wait() -> str:
        """Waits."""
        with tracer.start_as_current_span("async work"):
            assert trace.get_current_span().get_span_context().is_valid
            return "waited"

    model = TestModel([Call("look_up", word="zarf"), Call("wait")], "It is a kestrel.")
    agent = Agent(
        model,
        tools=[look_up, wait],
        instructions="Be brief.",
        cwd=project,
        isolated=True,
        options=AgentOptions(environ={"GEMINI_API_KEY": KEY}),
    )
    assert await agent.ask(f"What is a zarf? My key is {KEY}") == "It is a kestrel."
    found = paths(seen.spans)
    assert "invoke_agent > turn > execute_tool look_up > sync work" in found
    assert "invoke_agent > turn > execute_tool wait > async work" in found
    statuses = {each.status.status_code for each in seen.finished}
    assert statuses <= {StatusCode.OK, StatusCode.UNSET}
    own = [each for each in seen.finished if not each.name.endswith("work")]
    assert {each.status.status_code for each in own} == {StatusCode.OK}
    asked = seen.text("chat test", "gen_ai.input.messages", 1)
    assert {"role": "tool"}.items() <= asked[-1].items()
    assert asked[-1]["parts"][0]["type"] == "tool_call_response"
    assert "kestrel" in str(asked[-1])
    said = [part["content"] for each in asked for part in each["parts"] if part["type"] == "text"]
    assert any("What is a zarf?" in text for text in said)
    (begun,) = seen.text("chat test", "gen_ai.output.messages")
    assert (begun["role"], begun["finish_reason"]) == ("assistant", "tool_call")
    assert begun["parts"][0]["arguments"] == {"word": "zarf"}
    system = seen.text("chat test", "gen_ai.system_instructions")
    assert "Be brief." in str(system)
    assert seen.text("execute_tool look_up", "gen_ai.tool.call.arguments") == {"word": "zarf"}
    result = seen.text("execute_tool look_up", "gen_ai.tool.call.result")
    assert "kestrel" in str(result)
    assert KEY not in str([dict(each.attributes) for each in seen.finished])


async def test_records_bear_the_trace_and_the_span_of_their_work(project: Path, seen: Seen):
    @tool
    def look_up() -> str:
        """Looks."""
        return "found"

    async with Agent(
        TestModel(Call("look_up"), "Done."), tools=[look_up], cwd=project, isolated=True
    ) as agent:
        await agent.ask("go")
    (root,) = [each for each in seen.finished if each.parent is None]
    records: list[Any] = [each.log_record for each in seen.logs.get_finished_logs()]
    spans = {each.context.span_id: each.name for each in seen.finished}
    wanted = {
        "gemini_cli.user_prompt": "invoke_agent",
        "gemini_cli.api_request": "chat test",
        "gemini_cli.api_response": "chat test",
        "gemini_cli.tool_call": "execute_tool look_up",
        "gen_ai.client.inference.operation.details": "chat test",
    }
    for name, span in wanted.items():
        own = [each for each in records if each.event_name == name]
        assert own, name
        assert {each.trace_id for each in own} == {root.context.trace_id}
        assert {spans[each.span_id] for each in own} == {span}


async def test_a_subagent_called_by_its_own_name_has_its_span(project: Path, seen: Seen):
    helper = Subagent(name="helper", description="Helps.", instructions="Help.")
    model = TestModel(
        Call("helper", objective="Look."), Call("complete_task", result="Seen."), "Done."
    )
    agent = Agent(model, agents=[helper], cwd=project, isolated=True)
    assert await agent.ask("go") == "Done."
    inside = "invoke_agent > turn > execute_tool helper > invoke_agent"
    assert inside in paths(seen.spans)
    assert f"{inside} > chat test" in paths(seen.spans)
    (of_helper,) = [
        each for each in seen.finished if each.name == "invoke_agent" and each.parent is not None
    ]
    assert of_helper.attributes["gen_ai.agent.name"] == "helper"
    assert of_helper.status.status_code is StatusCode.OK


async def test_the_provider_is_the_one_that_answered(
    project: Path, seen: Seen, server: ScriptedServer
):
    reply = sse({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})
    reply.pieces.append(b"data: [DONE]\n\n")
    server.reply(reply)
    async with OpenAICompatible("qwen", base_url=f"{server.url}/v1") as model:
        await Agent(model, cwd=project, isolated=True).ask("go")
    chat = seen.span("chat qwen")
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert chat.attributes["gen_ai.request.model"] == "qwen"
    records: list[Any] = [each.log_record for each in seen.logs.get_finished_logs()]
    (details,) = [each for each in records if each.event_name and "inference" in each.event_name]
    assert details.attributes["gen_ai.provider.name"] == "openai"


class TracesOnly(HttpCollector):
    """A backend that has no path for logs and metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        outer: Any = self
        server: Any = self.server
        base: Any = server.RequestHandlerClass

        class Handler(base):
            def do_POST(self) -> None:
                outer.paths.append(self.path)
                outer.headers.append({name.lower(): each for name, each in self.headers.items()})
                if self.path == "/v1/traces":
                    super().do_POST()
                    return
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

        server.RequestHandlerClass = Handler


def test_a_backend_that_takes_traces_only_is_told_once_and_others_can_be_switched_off(
    server: ScriptedServer, home: Path
):
    backend = TracesOnly()
    configure(home, **sent_to(backend))
    server.reply(answer(), answer())
    ran = alhena_process("-p", "go", **model_of(server))
    assert (ran.code, ran.out) == (0, "done\n")
    (line,) = ran.err.splitlines()
    assert "takes traces, but no logs and no metrics" in line
    assert "OTEL_LOGS_EXPORTER=none" in line
    assert backend.spans
    backend.paths.clear()
    off = {"OTEL_LOGS_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=abc,x-scope=mine"}
    ran = alhena_process("-p", "go", **model_of(server), **off, **headers)
    backend.close()
    assert (ran.code, ran.err) == (0, "")
    assert set(backend.paths) == {"/v1/traces"}
    assert backend.headers[-1]["api-key"] == "abc"


def test_a_backend_that_took_logs_before_is_not_told_to_take_traces_only(
    monkeypatch: pytest.MonkeyPatch,
):
    """One late or failed request of a busy backend says nothing of what it takes."""
    for name in ("BLRP_SCHEDULE_DELAY", "BSP_SCHEDULE_DELAY", "METRIC_EXPORT_INTERVAL"):
        monkeypatch.setenv(f"OTEL_{name}", "50")
    backend = HttpCollector()
    exporters: dict[str, tuple[str, ...]] = dict.fromkeys(SIGNALS, ("otlp",))
    sink = OtlpSink(OtlpEndpoint(backend.url, "http", exporters, {}), {})
    record = TelemetryRecord("gemini_cli.x", "x", {})
    assert sink.tracers is not None
    sink.tracers.get_tracer("x").start_span("x").end()
    sink.write(record, 1)
    while not (backend.logs and backend.spans and backend.metrics):
        time.sleep(0.01)
    backend.close()
    sink.write(record, 2)
    sink.close()
    assert sink.problem() == (
        f"telemetry: sending to {backend.url} failed; records are missing. Check "
        "telemetry.otlpEndpoint."
    )


def test_traces_can_be_switched_off_or_printed(server: ScriptedServer, home: Path):
    collector = HttpCollector()
    configure(home, **sent_to(collector))
    server.reply(answer(), answer(), Reply(status=400))
    ran = alhena_process("-p", "go", **model_of(server), OTEL_TRACES_EXPORTER="none")
    assert (ran.code, ran.err) == (0, "")
    assert collector.spans == []
    assert collector.logs
    ran = alhena_process("-p", "go", **model_of(server), OTEL_TRACES_EXPORTER="console,zipkin")
    collector.close()
    assert ran.out == "done\n"
    assert '"name": "invoke_agent"' in ran.err
    assert "OTEL_TRACES_EXPORTER=zipkin" in ran.err
    assert collector.spans == []
