"""Where the output of a discovered tool goes."""

from alhena.tools.captured_output import CapturedOutput


class DiscoveredOutput(CapturedOutput):
    """The output of one call, in a file of its own when it is long."""

    tool = "discovered_tool"
