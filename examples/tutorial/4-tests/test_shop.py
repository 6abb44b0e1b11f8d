"""Tests of the shop's agent, without a model: python -m pytest test_shop.py"""

import json
from pathlib import Path

import pytest

from alhena import Answer, ConfirmationRequest, call_tool
from alhena.testing import Call, TestModel, no_real_requests

from shop import make_agent, open_shop, query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return open_shop(tmp_path / "shop.db")


def deny(request: ConfirmationRequest) -> Answer:
    return Answer.no(f"{request.args['euros']} is too much for me.")


async def test_the_tool_reads_the_database(path: Path) -> None:
    result = await call_tool(query, {"sql": "SELECT item FROM orders WHERE id = 2"}, deps=path)
    assert json.loads(str(result.llm_content)) == [{"item": "lamp"}]


async def test_the_tool_cannot_write(path: Path) -> None:
    result = await call_tool(query, {"sql": "DELETE FROM orders"}, deps=path)
    assert "readonly database" in str(result.llm_content)


def test_the_model_gets_what_the_tool_found(path: Path) -> None:
    model = TestModel(Call("query", sql="SELECT customer FROM orders WHERE id = 2"), "Bo.")
    with no_real_requests():
        assert make_agent(path, "never", model).ask_sync("Who waits?") == "Bo."
    assert "Bo" in str(model.requests[1]["contents"][-1])


def test_small_refunds_are_paid_and_large_ones_are_not(path: Path) -> None:
    calls = [
        Call("refund", order=4, euros=9, reason="broken"),
        Call("refund", order=3, euros=890, reason="too large"),
    ]
    model = TestModel(calls, "Order 4 is paid back.")
    result = make_agent(path, deny, model).run_sync("Refund orders 3 and 4.")
    (denied,) = result.denied
    assert denied.args["order"] == 3
    assert "Ask the owner." in denied.reason
    assert "Paid back 9.00 EUR" in str(model.requests[1]["contents"][-1])


def test_the_model_reads_why_a_person_refused(path: Path) -> None:
    model = TestModel(Call("refund", order=3, euros=200, reason="scratched"), "Refused.")
    make_agent(path, deny, model).ask_sync("Refund 200 of order 3.")
    assert "200 is too much for me." in str(model.requests[1]["contents"][-1])
