"""Tests of a program with an agent; pytest runs them, and so does this file."""

from scripted import call, scripted

from pydantic_ai import Agent, ModelRetry, models


def price(item: str) -> float:
    """The price of an item."""
    if item != "tea":
        raise ModelRetry(f"There is no {item}.")
    return 2.5


shop = Agent("google:gemini-3.8-flash", tools=[price], defer_model_check=True)
"""The program."""
models.ALLOW_MODEL_REQUESTS = False


def test_the_price_comes_from_the_tool() -> None:
    model = scripted(call("price", item="tea"), lambda messages: str(messages[-1].parts[0].content))
    with shop.override(model=model):
        assert "2.5" in shop.run_sync("How much is tea?").output


def test_an_unknown_item_is_an_error_for_the_model() -> None:
    model = scripted(call("price", item="gold"), "We have no gold.")
    with shop.override(model=model):
        assert shop.run_sync("How much is gold?").output == "We have no gold."
    assert "There is no gold." in str(model.requests[1][-1])


if __name__ == "__main__":
    test_the_price_comes_from_the_tool()
    test_an_unknown_item_is_an_error_for_the_model()
    print("2 tests passed")
