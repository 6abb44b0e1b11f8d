"""The tools of a session, and around their calls: policy, hooks, approvals, MCP, subagents."""
