"""Results with texts and media, as response objects and back."""

import pytest

from alhena.wire.content import Blob, FunctionResponse, FunctionResponsePart
from alhena.wire.dialects.results import Piece, from_response, to_response

ONE = FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="AAAA"))
TWO = FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="BBBB"))


@pytest.mark.requirement("NATIVE-05")
@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    "pieces",
    [["a"], ["a\nb"], [ONE], [ONE, TWO], ["a", ONE], ["a", ONE, TWO], [ONE, "a"],
     ["a", ONE, "b", TWO], ["a", ONE, "b"], ["[media 1]", ONE], ["[media 2]", ONE, "b"]],
)  # fmt: skip
def test_texts_and_media_of_a_result_come_back_in_their_order(pieces: list[Piece], failed: bool):
    response, media = to_response(pieces, failed=failed)
    answer = FunctionResponse(id="1", name="f", response=response, parts=media or None)
    assert from_response(answer) == (pieces, failed)
