"""Keys of settings.json as they were called before it had sections, and some that were renamed
since. A file that uses them is read as if it had the new ones; it is never rewritten."""

from typing import Any, cast

from alhena.config.dotted import value_at, with_value, without_value
from alhena.config.merging import union

MOVED = {
    "accessibility": "ui.accessibility",
    "allowedTools": "tools.allowed",
    "allowMCPServers": "mcp.allowed",
    "autoAccept": "tools.autoAccept",
    "autoConfigureMaxOldSpaceSize": "advanced.autoConfigureMemory",
    "bugCommand": "advanced.bugCommand",
    "checkpointing": "general.checkpointing",
    "contextFileName": "context.fileName",
    "coreTools": "tools.core",
    "customThemes": "ui.customThemes",
    "customWittyPhrases": "ui.customWittyPhrases",
    "debugKeystrokeLogging": "general.debugKeystrokeLogging",
    "dnsResolutionOrder": "advanced.dnsResolutionOrder",
    "enableInteractiveShell": "tools.shell.enableInteractiveShell",
    "enforcedAuthType": "security.auth.enforcedType",
    "excludedProjectEnvVars": "advanced.excludedEnvVars",
    "excludeMCPServers": "mcp.excluded",
    "excludeTools": "tools.exclude",
    "extensionManagement": "experimental.extensionManagement",
    "fileFiltering": "context.fileFiltering",
    "folderTrust": "security.folderTrust.enabled",
    "hasSeenIdeIntegrationNudge": "ide.hasSeenNudge",
    "hideBanner": "ui.hideBanner",
    "hideContextSummary": "ui.hideContextSummary",
    "hideCWD": "ui.footer.hideCWD",
    "hideFooter": "ui.hideFooter",
    "hideModelInfo": "ui.footer.hideModelInfo",
    "hideSandboxStatus": "ui.footer.hideSandboxStatus",
    "hideTips": "ui.hideTips",
    "hideWindowTitle": "ui.hideWindowTitle",
    "ideMode": "ide.enabled",
    "includeDirectories": "context.includeDirectories",
    "loadMemoryFromIncludeDirectories": "context.loadMemoryFromIncludeDirectories",
    "maxSessionTurns": "model.maxSessionTurns",
    "mcpServerCommand": "mcp.serverCommand",
    "memoryDiscoveryMaxDirs": "context.discoveryMaxDirs",
    "memoryImportFormat": "context.importFormat",
    "preferredEditor": "general.preferredEditor",
    "retryFetchErrors": "general.retryFetchErrors",
    "sandbox": "tools.sandbox",
    "selectedAuthType": "security.auth.selectedType",
    "shellPager": "tools.shell.pager",
    "shellShowColor": "tools.shell.showColor",
    "showCitations": "ui.showCitations",
    "showLineNumbers": "ui.showLineNumbers",
    "showMemoryUsage": "ui.showMemoryUsage",
    "showStatusInTitle": "ui.showStatusInTitle",
    "skipNextSpeakerCheck": "model.skipNextSpeakerCheck",
    "summarizeToolOutput": "model.summarizeToolOutput",
    "theme": "ui.theme",
    "toolCallCommand": "tools.callCommand",
    "toolDiscoveryCommand": "tools.discoveryCommand",
    "usageStatisticsEnabled": "privacy.usageStatisticsEnabled",
    "useExternalAuth": "security.auth.useExternal",
    "useRipgrep": "tools.useRipgrep",
    "vimMode": "general.vimMode",
    "context.loadFromIncludeDirectories": "context.loadMemoryFromIncludeDirectories",
    "tools.approvalMode": "general.defaultApprovalMode",
}
"""The old dotted key -> the new one."""
RESTRICTING = frozenset({"tools.exclude", "mcp.excluded", "advanced.excludedEnvVars"})
"""Lists of which nothing may get lost."""


def renewed(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`document` under the new keys, and which of them came from which old ones (new -> old).

    Where both are there the new one counts; of lists that only restrict, both do.
    """
    found = document
    moved: dict[str, str] = {}
    for old, new in MOVED.items():
        if (value := value_at(found, old)) is None:
            continue
        there = value_at(found, new)
        found = without_value(found, tuple(old.split(".")))
        if there is not None and new not in RESTRICTING:
            continue
        if isinstance(there, list) and isinstance(value, list):
            value = union([*cast("list[Any]", there), *cast("list[Any]", value)])
        found = with_value(found, tuple(new.split(".")), value)
        moved[new] = old
    if isinstance(found.get("model"), str):
        found = {**found, "model": {"name": found["model"]}}
        moved["model.name"] = "model"
    return found, moved
