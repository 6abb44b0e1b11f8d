"""Settings for calls where there is nothing to call (T13)."""

from msgspec.structs import replace

from alhena.wire.request import FunctionCallingMode, GenerateContentConfig, ToolConfig

PLACE = "toolConfig.functionCallingConfig"
LEFT_OUT = "left out: no function is declared."


def without_idle_calling(config: GenerateContentConfig) -> GenerateContentConfig:
    """The config without a calling mode where no function is declared, which services refuse; the
    same object where there is none to leave out. A mode that demands a call stays: it cannot be
    kept, and nobody but the client knows what it meant."""
    tools = config.tool_config
    calling = tools.function_calling_config if tools is not None else None
    if tools is None or calling is None or config.function_names():
        return config
    if calling.mode is FunctionCallingMode.ANY:
        return config
    rest = replace(tools, function_calling_config=None)
    return replace(config, tool_config=None if rest == ToolConfig() else rest)
