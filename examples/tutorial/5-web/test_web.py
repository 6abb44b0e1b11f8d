"""A refund that waits for a person: python -m pytest test_web.py"""

import sqlite3
from contextlib import closing
from pathlib import Path

from starlette.testclient import TestClient

from alhena.testing import Call, TestModel

from web import Service


def service(path: Path, *answers: str | Call) -> TestClient:
    """A process of the service; each test starts two on one database."""
    return TestClient(Service(path, TestModel(*answers)).app())


def status(path: Path) -> str:
    """The status of order 3."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT status FROM orders WHERE id = 3").fetchone()[0]


def test_a_refund_waits_and_is_paid_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    first = service(path, Call("refund", order=3, euros=200, reason="scratched"))
    reply = first.post("/ask", json={"question": "Refund 200 of order 3."})
    assert reply.status_code == 202
    assert reply.json()["calls"][0]["args"]["euros"] == 200

    second = service(path, "Ada has her 200 euros.")
    url = f"/answers/{reply.json()['waiting']}"
    assert second.post(url, json={"approve": True}).json() == {"answer": "Ada has her 200 euros."}
    assert second.post(url, json={"approve": True}).status_code == 404
    assert status(path) == "refunded"


def test_a_refusal_is_read_by_the_model(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    first = service(path, Call("refund", order=3, euros=200, reason="scratched"))
    url = f"/answers/{first.post('/ask', json={'question': 'Refund.'}).json()['waiting']}"
    reply = service(path, "It was refused.").post(url, json={"approve": False, "reason": "No."})
    assert reply.json() == {"answer": "It was refused."}
    assert status(path) == "returned"
