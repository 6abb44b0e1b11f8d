"""Answers of the Responses API that are kept for `previous_response_id`, and for reading again."""

from collections import OrderedDict
from typing import Any

import msgspec

from alhena.wire.content import encode_value
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.responses.reading import input_items
from alhena.wire.json_values import as_object

MAX_ANSWERS = 1000
MAX_BYTES = 64 * 1024 * 1024
"""The most that is kept; the oldest answers go first."""


class _Stored(msgspec.Struct, frozen=True):
    """An answer, and the items of the conversation up to its end, in JSON."""

    answer: bytes
    conversation: bytes

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

    def put(self, answer: dict[str, Any], asked: DialectRequest) -> None:
        """Keeps an answer, unless its request says `store: false`."""
        if asked.echo.get("store") is False:
            return
        items = [*asked.items, *answer["output"]]
        stored = _Stored(encode_value(answer), encode_value(items))
        self.drop(answer["id"])
        self._kept[answer["id"]] = stored
        self._size += stored.size
        while self._kept and (len(self._kept) > self._max_answers or self._size > self._max_bytes):
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size

    def answer(self, answer_id: str) -> Any:
        """The kept answer; None if there is none."""
        stored = self._kept.get(answer_id)
        return None if stored is None else msgspec.json.decode(stored.answer)

    def drop(self, answer_id: str) -> bool:
        """Removes an answer; False if there is none."""
        stored = self._kept.pop(answer_id, None)
        if stored is None:
            return False
        self._size -= stored.size
        return True

    def continued(self, body: Any) -> Any:
        """The body of a request with the whole conversation in place of `previous_response_id`.
        Raises DialectError for an answer that is not kept."""
        previous = (as_object(body) or {}).get("previous_response_id")
        if not previous:
            return body
        fields = Fields(body)
        stored = self._kept.get(str(fields.text("previous_response_id")))
        if stored is None:
            raise fields.fail(
                "previous_response_id",
                f'there is no answer "{str(previous)[:100]}" here (any more); '
                "send the whole conversation.",
            )
        items = [*msgspec.json.decode(stored.conversation), *input_items(fields)]
        return {**body, "input": items, "previous_response_id": None}
