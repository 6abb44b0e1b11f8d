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
        *("unknown", "policy_violation", "file_not_found", "file_write_failure", "no_space_left"),
        *("read_content_failure", "attempt_to_create_existing_file", "file_too_large"),
        *("permission_denied", "target_is_directory", "path_not_in_workspace"),
        *("search_path_not_found", "search_path_not_a_directory", "path_is_not_a_directory"),
        *("edit_preparation_failure", "edit_no_occurrence_found", "edit_no_change"),
        *("edit_expected_occurrence_mismatch", "edit_no_change_llm_judgement"),
        *("glob_execution_error", "grep_execution_error", "ls_execution_error"),
        *("memory_tool_execution_error", "read_many_files_search_error", "shell_execute_error"),
        *("web_fetch_no_url_in_prompt", "web_fetch_fallback_failed"),
        *("web_fetch_processing_error", "web_search_failed"),
    }


@pytest.mark.requirement("TOOLS-03")
def test_a_failed_result_says_the_same_to_model_and_user():
    result = ToolResult.from_failure("no such file", ToolErrorType.FILE_NOT_FOUND)
    assert (result.llm_content, result.display) == ("no such file", "no such file")
    assert result.error is not None
    assert (result.error.message, result.error.type) == ("no such file", "file_not_found")
