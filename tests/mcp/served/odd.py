"""A server of a few lines that does what its script says, well-behaved or not. No library, so that
it starts at once: `python odd.py SCRIPT.json`. Every message it gets goes to the file `heard`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SCRIPT: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
HEARD = SCRIPT.get("heard")


def send(value: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **value}).encode() + b"\n")


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": request["id"], "result": result})


def refuse(request: dict[str, Any], code: int, message: str) -> None:
    send({"id": request["id"], "error": {"code": code, "message": message}})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def pages(request: dict[str, Any], what: str) -> None:
    """`tools` is a list, or a list of pages with the cursors they are found under."""
    given: Any = SCRIPT.get(what, [])
    if SCRIPT.get("list_from"):
        given = json.loads(Path(SCRIPT["list_from"]).read_text(encoding="utf-8"))
    if isinstance(given, dict):
        cursor = (request.get("params") or {}).get("cursor", "")
        answer(request, given[cursor])
        return
    answer(request, {what: given})


def crash(_request: dict[str, Any], _does: dict[str, Any]) -> None:
    print("about to crash", file=sys.stderr, flush=True)
    os._exit(7)


def dies(_request: dict[str, Any], does: dict[str, Any]) -> None:
    """Ends with these last words, by itself or by a signal."""
    sys.stderr.write(does["says"])
    sys.stderr.flush()
    if "signal" in does:
        os.kill(os.getpid(), does["signal"])
    os._exit(does["code"])


def deaf(request: dict[str, Any], _does: dict[str, Any]) -> None:
    """Answers, and reads nothing from then on, but stays."""
    print("I have had enough", file=sys.stderr, flush=True)
    os.close(0)
    answer(request, {"content": []})
    time.sleep(3600)


def crash_once(request: dict[str, Any], does: dict[str, Any]) -> None:
    mark = Path(does["mark"])
    if not mark.exists():
        mark.touch()
        os._exit(7)
    answer(request, text("back again"))


def garbage(request: dict[str, Any], _does: dict[str, Any]) -> None:
    write(b"\x00\xff{not json}\n[1,2\n\n")
    answer(request, text("behind the garbage"))


def long_line(request: dict[str, Any], does: dict[str, Any]) -> None:
    piece = b"x" * 1_000_000
    write(b'{"jsonrpc":"2.0","id":1,"result":"')
    for _ in range(does["megabytes"]):
        write(piece)
    write(b'"}\n')


def wrong_id(request: dict[str, Any], _does: dict[str, Any]) -> None:
    send({"id": 987654, "result": text("of another call")})
    send({"id": "no number", "result": text("of another call")})
    answer(request, text("the right one"))


def slow_loris(request: dict[str, Any], _does: dict[str, Any]) -> None:
    for byte in json.dumps({"jsonrpc": "2.0", "id": request["id"]}).encode() * 100:
        write(bytes([byte]))
        time.sleep(0.05)


def storm(request: dict[str, Any], does: dict[str, Any]) -> None:
    for _ in range(does["times"]):
        send({"method": "notifications/tools/list_changed"})
    answer(request, text("many changes"))


def chatter(request: dict[str, Any], does: dict[str, Any]) -> None:
    for number in range(does["times"]):
        params = {"level": "info", "data": f"line {number}"}
        send({"method": "notifications/message", "params": params})
    answer(request, text("said"))


def report(request: dict[str, Any], does: dict[str, Any]) -> None:
    """Is at work for long, and says so."""
    for number in range(does["times"]):
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": number + 1}
        send({"method": "notifications/progress", "params": params})
        time.sleep(does["pause"])
    answer(request, text("at last"))


def become(request: dict[str, Any], does: dict[str, Any]) -> None:
    Path(SCRIPT["list_from"]).write_text(json.dumps(does["tools"]), encoding="utf-8")
    send({"method": "notifications/tools/list_changed"})
    answer(request, text("another list"))


def fork(request: dict[str, Any], _does: dict[str, Any]) -> None:
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(60)
    answer(request, text(str(child)))


STEPS: list[None] = []


def steps(request: dict[str, Any], does: dict[str, Any]) -> None:
    """Gives one result after the other, the last one again and again."""
    results = does["results"]
    answer(request, results[min(len(STEPS), len(results) - 1)])
    STEPS.append(None)


def ask(request: dict[str, Any], does: dict[str, Any]) -> None:
    """Asks as servers of older revisions do, and gives the answer as its result."""
    send({"id": "question", "method": "elicitation/create", "params": does["params"]})
    while True:
        reply = json.loads(sys.stdin.readline())
        if reply.get("id") == "question":
            answer(request, text(json.dumps(reply.get("result", reply))))
            return


BEHAVIOURS = {
    "ask": ask,
    "steps": steps,
    "echo": lambda request, _does: answer(
        request, text(json.dumps(request["params"].get("arguments", {})))
    ),
    "pid": lambda request, _does: answer(request, text(str(os.getpid()))),
    "result": lambda request, does: answer(request, does["result"]),
    "error": lambda request, _does: refuse(request, -32000, "the oven is cold"),
    "never": lambda _request, _does: None,
    "hang": lambda _request, _does: time.sleep(60),
    "close output": lambda _request, _does: os.close(1),
    "crash": crash,
    "deaf": deaf,
    "dies": dies,
    "crash once": crash_once,
    "garbage": garbage,
    "long line": long_line,
    "wrong id": wrong_id,
    "slow loris": slow_loris,
    "storm": storm,
    "chatter": chatter,
    "become": become,
    "report": report,
    "fork": fork,
}


def call(request: dict[str, Any]) -> None:
    """Runs a tool: its behaviour is in the script under its name."""
    does: dict[str, Any] = SCRIPT.get("does", {}).get(request["params"]["name"], {})
    BEHAVIOURS[does.get("do", "echo")](request, does)


def initialize(request: dict[str, Any]) -> None:
    if SCRIPT.get("silent"):
        time.sleep(60)
    if SCRIPT.get("gate"):  # a FIFO: waits until it is opened for writing
        Path(SCRIPT["gate"]).read_bytes()
    subjects = [each for each in ("tools", "prompts", "resources") if each in SCRIPT]
    told = {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {each: {} for each in (*subjects, "tools")},
        "serverInfo": {"name": "odd", "version": "1"},
    }
    answer(request, told | SCRIPT.get("initialize", {}))


def respond(request: dict[str, Any]) -> None:
    match request.get("method"):
        case "initialize" if SCRIPT.get("modern"):
            refuse(request, -32601, "no method initialize")
        case "server/discover" if SCRIPT.get("modern"):
            answer(request, SCRIPT["modern"])
        case "initialize":
            initialize(request)
        case "tools/list" | "prompts/list" | "resources/list" as method:
            if SCRIPT.get("list_error"):
                refuse(request, -32603, "the list is lost")
            else:
                pages(request, method.partition("/")[0])
        case "tools/call":
            call(request)
        case "prompts/get" | "resources/read" | "resources/templates/list" as method if (
            method in SCRIPT.get("answers", {})
        ):
            answer(request, SCRIPT["answers"][method])
        case str() as method if "id" in request:
            refuse(request, -32601, f"no method {method}")
        case _:
            pass


def main() -> None:
    """Answers until its input ends."""
    if "stderr" in SCRIPT:
        print(SCRIPT["stderr"], file=sys.stderr, flush=True)
    if SCRIPT.get("exit") is not None:
        sys.exit(SCRIPT["exit"])
    for line in sys.stdin:
        if HEARD:
            with Path(HEARD).open("a", encoding="utf-8") as file:
                file.write(line)
        respond(json.loads(line))


if __name__ == "__main__":
    main()
