import gzip

from tests.models.asking import api, chunks, event, texts
from tests.support.server import Reply, ScriptedServer, sse, text


async def test_compressed_answers_are_read(server: ScriptedServer):
    packed = gzip.compress(b"".join(event("x" * 1000, None) for _ in range(3000)) + event("end"))
    pieces = [packed[at : at + 37] for at in range(0, len(packed), 37)]
    headers = {"content-encoding": "gzip"}
    server.reply(Reply(content_type="text/event-stream", pieces=pieces, headers=headers))
    server.reply(sse(text("again")))
    generator = api(server.url)
    came = texts(await chunks(generator))
    assert (len(came), came[-1]) == (3001, "end")
    assert texts(await chunks(generator)) == ["again"]
    await generator.aclose()
    assert server.connections == 1
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_the_members_of_a_gzip_stream_are_one_answer(server: ScriptedServer):
    members = [event("a", None), event("b", None), event("end")]
    packed = b"".join(gzip.compress(member) for member in members)
    headers = {"content-encoding": "gzip"}
    for size in (1, 50, len(packed)):
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        server.reply(Reply(content_type="text/event-stream", pieces=pieces, headers=headers))
        generator = api(server.url)
        assert texts(await chunks(generator)) == ["a", "b", "end"]
        await generator.aclose()
