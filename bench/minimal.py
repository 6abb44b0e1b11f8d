"""A minimal client, the baseline of the loop: the same requests over one socket, nothing else.

Arguments: port, number of turns, path of the file to read each turn.
"""

import json
import socket
import sys


def main() -> None:
    port, turns, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(turns):
            body = json.dumps({"contents": contents}).encode()
            connection.sendall(
                b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            )
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 16)
            head, _, rest = data.partition(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(rest) < length:
                rest += connection.recv(1 << 16)
            parts = json.loads(rest.removeprefix(b"data: "))["candidates"][0]["content"]["parts"]
            contents.append({"role": "model", "parts": parts})
            responses = []
            for part in parts:
                if "functionCall" in part:
                    with open(path, encoding="utf-8") as file:
                        response = {"output": file.read()}
                    responses.append(
                        {"functionResponse": {"name": "read_file", "response": response}}
                    )
            if not responses:
                return
            contents.append({"role": "user", "parts": responses})


if __name__ == "__main__":
    main()
