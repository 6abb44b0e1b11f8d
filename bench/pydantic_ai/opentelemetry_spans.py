"""Spans of a run by OpenTelemetry, printed."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scripted import call, scripted

from pydantic_ai import Agent, InstrumentationSettings

spans = InMemorySpanExporter()  # or an exporter of yours
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

agent = Agent(scripted(call("lookup", word="alhena"), "A star in Gemini."))


@agent.tool_plain
def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a star"


print(agent.run_sync("What is alhena?").output)
for span in sorted(spans.get_finished_spans(), key=lambda each: each.start_time or 0):
    print(span.name, dict(span.attributes or {}).get("gen_ai.usage.input_tokens", ""))
