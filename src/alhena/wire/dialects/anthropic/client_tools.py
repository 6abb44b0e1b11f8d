"""Public descriptions and schemas of clients' tools that a request names by a type only."""

from typing import Any

CLIENT_TOOLS: dict[str, dict[str, Any]] = {
    "bash": {
        "description": "Runs a command in a persistent bash session, and returns its output.",
        "schema": {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "description": "The command to run. Required unless restart is true.",
                },
                "restart": {
                    "type": "boolean",
                    "description": "True to restart the session instead of running a command.",
                },
            },
        },
    },
    "text_editor": {
        "description": "Views, creates and edits text files.",
        "schema": {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": ["view", "create", "str_replace", "insert"],
                    "description": "The action.",
                },
                "path": {
                    "type": "string",
                    "description": "The path of the file, or of a directory to view.",
                },
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "For view: first and last line, from 1; -1 is the end.",
                },
                "file_text": {
                    "type": "string",
                    "description": "For create: the content of the file.",
                },
                "old_str": {
                    "type": "string",
                    "description": "For str_replace: the old text, which must occur once.",
                },
                "new_str": {"type": "string", "description": "For str_replace: the new text."},
                "insert_line": {
                    "type": "integer",
                    "description": "For insert: the line after which to insert; 0 is the start.",
                },
                "insert_text": {"type": "string", "description": "For insert: the text to insert."},
            },
            "required": ["command", "path"],
        },
    },
    "memory": {
        "description": "Reads and writes files below /memories, which last. View /memories first.",
        "schema": {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
                    "description": "The action.",
                },
                "path": {
                    "type": "string",
                    "description": "The path below /memories, for all commands but rename.",
                },
                "view_range": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "For view: first and last line, from 1.",
                },
                "file_text": {
                    "type": "string",
                    "description": "For create: the content of the file.",
                },
                "old_str": {
                    "type": "string",
                    "description": "For str_replace: the text to replace.",
                },
                "new_str": {"type": "string", "description": "For str_replace: the new text."},
                "insert_line": {
                    "type": "integer",
                    "description": "For insert: the line after which to insert.",
                },
                "insert_text": {"type": "string", "description": "For insert: the text to insert."},
                "old_path": {"type": "string", "description": "For rename: the present path."},
                "new_path": {"type": "string", "description": "For rename: the new path."},
            },
            "required": ["command"],
        },
    },
    "computer": {
        "description": "Uses the client's screen, keyboard and mouse.",
        "schema": {
            "type": "object",
            "properties": {
                "action": {
                    "type": "string",
                    "enum": [
                        "key",
                        "type",
                        "mouse_move",
                        "left_click",
                        "left_click_drag",
                        "right_click",
                        "middle_click",
                        "double_click",
                        "triple_click",
                        "left_mouse_down",
                        "left_mouse_up",
                        "scroll",
                        "hold_key",
                        "wait",
                        "screenshot",
                        "cursor_position",
                        "zoom",
                    ],
                    "description": "The action.",
                },
                "coordinate": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "x and y in pixels from the upper left corner.",
                },
                "start_coordinate": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "For left_click_drag: x and y where the drag begins.",
                },
                "text": {
                    "type": "string",
                    "description": "The text to type, or the keys to press, such as ctrl+s.",
                },
                "scroll_direction": {
                    "type": "string",
                    "enum": ["up", "down", "left", "right"],
                    "description": "For scroll.",
                },
                "scroll_amount": {
                    "type": "integer",
                    "description": "For scroll: the number of clicks of the wheel.",
                },
                "duration": {"type": "number", "description": "For wait and hold_key: seconds."},
                "region": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "description": "For zoom: left, top, right and bottom in pixels.",
                },
            },
            "required": ["action"],
        },
    },
}
"""By the type without its date."""
