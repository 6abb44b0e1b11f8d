"""Tests of a program with an agent; pytest runs them, and so does this file."""

from alhena import Agent, Model, ToolError
from alhena.testing import Call, TestModel, no_real_requests


def price(item: str) -> float:
    """The price of an item."""
    if item != "tea":
        raise ToolError(f"There is no {item}.")
    return 2.5


def shop(model: Model | str = "gemini-3.8-flash") -> Agent:
    """The program."""
    return Agent(model, tools=[price], isolated=True)


def test_the_price_comes_from_the_tool() -> None:
    model = TestModel(Call("price", item="tea"), lambda request: str(request["contents"][-1]))
    with no_real_requests():
        assert "2.5" in shop(model).ask_sync("How much is tea?")
    assert "price" in str(model.requests[0]["tools"])


def test_an_unknown_item_is_an_error_for_the_model() -> None:
    model = TestModel(Call("price", item="gold"), "We have no gold.")
    assert shop(model).ask_sync("How much is gold?") == "We have no gold."
    assert "There is no gold." in str(model.requests[1]["contents"][-1])


if __name__ == "__main__":
    test_the_price_comes_from_the_tool()
    test_an_unknown_item_is_an_error_for_the_model()
    print("2 tests passed")
