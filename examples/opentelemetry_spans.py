"""Spans of a run by OpenTelemetry, printed; needs alhena-agent[otel]."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from alhena import Agent, otel
from alhena.testing import Call, TestModel


def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a star"


spans = InMemorySpanExporter()  # or an exporter of yours
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
otel.instrument(tracer_provider=provider)

model = TestModel(Call("lookup", word="alhena"), "A star in Gemini.")
print(Agent(model, tools=[lookup], isolated=True).ask_sync("What is alhena?"))
for span in sorted(spans.get_finished_spans(), key=lambda each: each.start_time or 0):
    print(span.name, dict(span.attributes or {}).get("gen_ai.usage.input_tokens", ""))
