"""VertexApi sends the same request as google-genai sends to Vertex."""

from typing import Any

import pytest
from google import genai
from google.auth.credentials import Credentials
from google.genai import types

from alhena.models.providers.vertex import VertexApi, base_url, vertex_from
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from tests.models.asking import MODEL, chunks
from tests.models.test_gemini_oracle import OURS, THEIRS, camel
from tests.support.server import ScriptedServer, json_reply, sse, text

TOKEN = "ya29.a-token-of-somebody"
PLACE = {"GOOGLE_CLOUD_PROJECT": "my-project", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
MODELS = [
    MODEL,
    "publishers/google/models/gemini-2.5-flash",
    "anthropic/claude-x",
    "projects/1/locations/us-central1/endpoints/42",
    "models/42",
]


class Signed(Credentials):
    """Credentials that hold, as google-auth has them."""

    def __init__(self, quota_project: str | None = None) -> None:
        super().__init__()
        self.token = TOKEN
        self._quota_project_id = quota_project

    def refresh(self, request: Any) -> None:
        raise AssertionError("the token holds")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official client reads the process's environment."""
    for name in (*PLACE, "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


def official(server: ScriptedServer, quota_project: str | None = None) -> genai.Client:
    return genai.Client(
        vertexai=True,
        project="my-project",
        location="europe-west4",
        credentials=Signed(quota_project),
        http_options=types.HttpOptions(base_url=server.url),
    )


def express(server: ScriptedServer, key: str) -> genai.Client:
    options = types.HttpOptions(base_url=server.url)
    return genai.Client(vertexai=True, api_key=key, http_options=options)


def vertex(server: ScriptedServer, key: str = "", **environ: str) -> VertexApi:
    place = {} if key else PLACE | {"GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    return vertex_from({"GOOGLE_VERTEX_BASE_URL": server.url} | place | environ, key)


@pytest.mark.requirement("WIRE-04", "WIRE-01", "WIRE-02")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("model", MODELS)
async def test_requests_by_project_are_those_of_the_official_client(
    server: ScriptedServer, model: str
):
    server.reply(sse(text("x")), json_reply(text("x")), json_reply(text("x")), sse(text("x")))
    client = official(server)
    list(client.models.generate_content_stream(**dict(THEIRS, model=model)))
    client.models.generate_content(**dict(THEIRS, model=model))
    client.close()
    request = OURS.__class__(model=model, contents=OURS.contents, config=OURS.config)
    generator = vertex(server)
    await generator.generate(request)
    await chunks(generator, request)
    await generator.aclose()
    their_stream, their_whole, our_whole, our_stream = server.requests
    assert our_stream.path == their_stream.path
    assert our_whole.path == their_whole.path
    assert our_stream.json == camel(their_stream.json)
    assert our_whole.json == camel(their_whole.json)
    assert our_stream.headers["authorization"] == their_stream.headers["authorization"]
    assert "x-goog-api-key" not in our_stream.headers


@pytest.mark.requirement("WIRE-04")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_express_requests_are_those_of_the_official_client(server: ScriptedServer):
    server.reply(sse(text("x")), sse(text("x")))
    client = express(server, "express-key")
    list(client.models.generate_content_stream(**THEIRS))
    client.close()
    generator = vertex(server, "express-key")
    await chunks(generator, OURS)
    await generator.aclose()
    theirs, ours = server.requests
    assert (ours.path, ours.json) == (theirs.path, camel(theirs.json))
    assert ours.path == f"/v1beta1/publishers/google/models/{MODEL}:streamGenerateContent?alt=sse"
    assert ours.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"] == "express-key"
    assert "authorization" not in ours.headers


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_project_that_is_charged_is_named_as_the_official_client_does(
    server: ScriptedServer,
):
    server.reply(json_reply(text("x")), json_reply(text("x")))
    client = official(server, "charged")
    client.models.generate_content(model=MODEL, contents="hi")
    client.close()
    generator = vertex(server, GOOGLE_CLOUD_QUOTA_PROJECT="charged")
    await generator.generate(OURS)
    await generator.aclose()
    theirs, ours = server.requests
    assert ours.headers["x-goog-user-project"] == theirs.headers["x-goog-user-project"] == "charged"


@pytest.mark.requirement("WIRE-08")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_counting_asks_as_the_official_client_does(server: ScriptedServer):
    server.reply(json_reply({"totalTokens": 3}), json_reply({"totalTokens": 3}))
    client = official(server)
    counted = client.models.count_tokens(model=MODEL, contents=THEIRS["contents"])
    client.close()
    generator = vertex(server)
    assert await generator.count_tokens(OURS.contents, model=MODEL) == counted.total_tokens == 3
    await generator.aclose()
    theirs, ours = server.requests
    assert (ours.path, ours.json) == (theirs.path, camel(theirs.json))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("model", "words", "reply"),
    [
        ("gemini-embedding-001", "a", {"embedding": {"values": [1]}}),
        ("gemini-embedding-001", "ab", {"embeddings": [{"values": [1]}, {"values": [2]}]}),
    ],
)
async def test_embedding_asks_and_reads_as_the_official_client_does(
    server: ScriptedServer, model: str, words: str, reply: Any
):
    server.reply(json_reply(reply), json_reply(reply))
    client = official(server)
    content = [types.Content(role="user", parts=[types.Part(text=word)]) for word in words]
    theirs_found = client.models.embed_content(model=model, contents=content)
    client.close()
    generator = vertex(server)
    found = await generator.embed(
        [EncodedContent(text_content("user", word)) for word in words], model=model
    )
    await generator.aclose()
    theirs, ours = server.requests
    assert (ours.path, ours.json) == (theirs.path, camel(theirs.json))
    assert [list(one.values) for one in found.embeddings] == [
        one.values for one in theirs_found.embeddings or ()
    ]
    assert len(found.embeddings) == len(words)


@pytest.mark.requirement("WIRE-04")
@pytest.mark.parametrize("location", ["us-central1", "europe-west4", "global", "us", "eu"])
def test_the_address_of_a_location_is_that_of_the_official_client(location: str):
    client = genai.Client(
        vertexai=True, project="p", location=location, credentials=Signed(), http_options=None
    )
    theirs = client._api_client._http_options.base_url
    client.close()
    assert theirs == base_url(location) + "/"
