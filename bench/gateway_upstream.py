"""The upstream server of the gateway in `bench.gateway`, or, with a port, a bare relay."""

import asyncio
import contextlib
import json
import sys
import time

from bench.server import candidate, event


async def serve() -> None:
    """Answers every POST with a stream; the prompt gives the number of chunks and their
    interval."""
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1}

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                text = json.loads(body)["contents"][0]["parts"][0]["text"]
                count, pace = int(text.split()[0]), float(text.split()[1])
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"transfer-encoding: chunked\r\n\r\n"
                )
                for number in range(count):
                    said = f"@{time.monotonic_ns()}@ word {number} "
                    made = event({**candidate({"text": said}, finish=None), "usageMetadata": usage})
                    writer.write(b"%x\r\n%b\r\n" % (len(made), made))
                    await writer.drain()
                    if pace:
                        await asyncio.sleep(pace)
                made = event(candidate({"text": "end"}))
                writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(made), made))
                await writer.drain()

    server = await asyncio.start_server(exchange, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def relay(port: int) -> None:
    """Forwards bytes in both directions to another port."""

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(one_way(reader, back), one_way(there, writer))

    server = await asyncio.start_server(exchange, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(relay(int(sys.argv[1])) if len(sys.argv) > 1 else serve())
