import pytest

from alhena.tools.contract import MUTATOR_KINDS, Kind, ToolErrorType, ToolResult


@pytest.mark.requirement("TOOLS-04")
def test_kinds_and_mutators_are_the_documented_ones():
    assert " ".join(Kind) == (
        "read edit delete move search execute think fetch communicate plan other"
    )
    assert {str(kind) for kind in MUTATOR_KINDS} == {"edit", "delete", "move", "execute"}


@pytest.mark.requirement("TOOLS-04")
def test_error_types_include_the_documented_ones():
    assert {str(kind) for kind in ToolErrorType} >= {
        "tool_not_registered",
        "invalid_tool_params",
        "unhandled_exception",
        "execution_failed",
        "stop_execution",
        "cancelled",
    }


@pytest.mark.requirement("TOOLS-03")
def test_a_failed_result_says_the_same_to_model_and_user():
    result = ToolResult.failed("no such file", ToolErrorType.FILE_NOT_FOUND)
    assert (result.llm_content, result.display) == ("no such file", "no such file")
    assert result.error is not None
    assert (result.error.message, result.error.type) == ("no such file", "file_not_found")
