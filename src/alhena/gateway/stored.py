"""Answers of the Responses API that are kept for `previous_response_id`, for references to their
items, and for reading again."""

from collections import OrderedDict
from typing import Any

import msgspec

from alhena.gateway.faults import Fault, FaultKind, GatewayRefusalError
from alhena.wire.content import encode_value
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError, Fields
from alhena.wire.dialects.responses.reading import input_items
from alhena.wire.json_values import as_object

MAX_ANSWERS = 1000
MAX_BYTES = 64 * 1024 * 1024
"""The most that is kept; the oldest answers go first."""


class _Stored(msgspec.Struct, frozen=True):
    """An answer, and the items of the conversation up to its end, in JSON; the number of those
    before the answer, and the ids of its items."""

    answer: bytes
    conversation: bytes
    inputs: int
    item_ids: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.answer) + len(self.conversation)


class ResponseStore:
    """Keeps answers in memory, by id."""

    def __init__(self, max_answers: int = MAX_ANSWERS, max_bytes: int = MAX_BYTES) -> None:
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._size = 0
        self._kept: OrderedDict[str, _Stored] = OrderedDict()
        self._owners: dict[str, str] = {}

    def put(self, answer: dict[str, Any], asked: DialectRequest) -> None:
        """Keeps an answer, unless its request says `store: false`."""
        if asked.echo.get("store") is False:
            return
        output: list[dict[str, Any]] = answer["output"]
        ids = tuple(str(item["id"]) for item in output if item.get("id"))
        items = [*asked.items, *output]
        self.drop(answer["id"])
        stored = _Stored(encode_value(answer), encode_value(items), len(asked.items), ids)
        self._kept[answer["id"]] = stored
        self._owners.update(dict.fromkeys(ids, str(answer["id"])))
        self._size += stored.size
        while len(self._kept) > self._max_answers or self._size > self._max_bytes:
            self.drop(next(iter(self._kept)))

    def answer(self, answer_id: str) -> Any:
        """The kept answer; None if there is none."""
        stored = self._kept.get(answer_id)
        return None if stored is None else msgspec.json.decode(stored.answer)

    def input_items(self, answer_id: str) -> list[dict[str, Any]] | None:
        """The items before a kept answer, each with an id and a type; None if there is none."""
        stored = self._kept.get(answer_id)
        if stored is None:
            return None
        items: list[Any] = msgspec.json.decode(stored.conversation)[: stored.inputs]
        return [
            {"id": f"item_{at}", "type": "message", **(as_object(item) or {})}
            for at, item in enumerate(items)
        ]

    def drop(self, answer_id: str) -> None:
        """Removes an answer, if it is kept."""
        stored = self._kept.pop(answer_id, None)
        if stored is None:
            return
        self._size -= stored.size
        for item_id in stored.item_ids:
            if self._owners.get(item_id) == answer_id:
                del self._owners[item_id]

    def insert_conversation(self, body: Any) -> Any:
        """The body of a request with the whole conversation in place of `previous_response_id`, and
        items in place of references. Raises GatewayRefusalError and DialectError for what is not
        kept."""
        if as_object(body) is None:
            return body
        fields = Fields(body)
        previous = fields.text("previous_response_id")
        if isinstance(fields.value("input"), str | None) and not previous:
            return body
        earlier: list[Any] = []
        if previous:
            stored = self._kept.get(previous)
            if stored is None:
                place = fields.place("previous_response_id")
                message = (
                    f'{place}: there is no answer "{previous[:100]}" here (any more); '
                    "send the whole conversation."
                )
                fault = Fault(kind=FaultKind.NO_ANSWER, message=message, place=place)
                raise GatewayRefusalError(fault)
            earlier = msgspec.json.decode(stored.conversation)
        given = enumerate(input_items(fields))
        items = [*earlier, *(self._resolve_item(item, f"input[{at}].id") for at, item in given)]
        return {**body, "input": items, "previous_response_id": None}

    def _resolve_item(self, item: Any, place: str) -> Any:
        """The item that a reference means; other items are unchanged."""
        fields = as_object(item) or {}
        if fields.get("type") != "item_reference" and fields.keys() != {"id"}:
            return item
        item_id = str(fields.get("id"))
        answer = self.answer(self._owners.get(item_id, ""))
        output: list[dict[str, Any]] = answer["output"] if answer else []
        found = next((each for each in output if each.get("id") == item_id), None)
        if found is None:
            raise DialectError(f'there is no item "{item_id[:100]}" here (any more).', place)
        return found
