"""The keys of settings files: those with an effect, those of the reference, and new names of old
ones."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import msgspec

from alhena.config.documents import union, value_at, with_value, without_value
from alhena.config.settings import Settings

MOVED = {
    "accessibility": "ui.accessibility",
    "allowedTools": "tools.allowed",
    "allowMCPServers": "mcp.allowed",
    "checkpointing": "general.checkpointing",
    "contextFileName": "context.fileName",
    "coreTools": "tools.core",
    "enableInteractiveShell": "tools.shell.enableInteractiveShell",
    "enforcedAuthType": "security.auth.enforcedType",
    "excludedProjectEnvVars": "advanced.excludedEnvVars",
    "excludeMCPServers": "mcp.excluded",
    "excludeTools": "tools.exclude",
    "folderTrust": "security.folderTrust.enabled",
    "hideCWD": "ui.footer.hideCWD",
    "hideFooter": "ui.hideFooter",
    "hideModelInfo": "ui.footer.hideModelInfo",
    "hideSandboxStatus": "ui.footer.hideSandboxStatus",
    "hideWindowTitle": "ui.hideWindowTitle",
    "ideMode": "ide.enabled",
    "includeDirectories": "context.includeDirectories",
    "loadMemoryFromIncludeDirectories": "context.loadMemoryFromIncludeDirectories",
    "maxSessionTurns": "model.maxSessionTurns",
    "mcpServerCommand": "mcp.serverCommand",
    "memoryDiscoveryMaxDirs": "context.discoveryMaxDirs",
    "memoryImportFormat": "context.importFormat",
    "retryFetchErrors": "general.retryFetchErrors",
    "sandbox": "tools.sandbox",
    "selectedAuthType": "security.auth.selectedType",
    "showStatusInTitle": "ui.showStatusInTitle",
    "theme": "ui.theme",
    "toolCallCommand": "tools.callCommand",
    "toolDiscoveryCommand": "tools.discoveryCommand",
    "usageStatisticsEnabled": "privacy.usageStatisticsEnabled",
    "useExternalAuth": "security.auth.useExternal",
    "vimMode": "general.vimMode",
    "shellPager": "tools.shell.pager",
    "summarizeToolOutput": "model.summarizeToolOutput",
    "preferredEditor": "general.preferredEditor",
    "customThemes": "ui.customThemes",
    "hideTips": "ui.hideTips",
    "hideBanner": "ui.hideBanner",
    "hideContextSummary": "ui.hideContextSummary",
    "showMemoryUsage": "ui.showMemoryUsage",
    "showLineNumbers": "ui.showLineNumbers",
    "showCitations": "ui.showCitations",
    "customWittyPhrases": "ui.customWittyPhrases",
    "skipNextSpeakerCheck": "model.skipNextSpeakerCheck",
    "useRipgrep": "tools.useRipgrep",
    "dnsResolutionOrder": "advanced.dnsResolutionOrder",
    "bugCommand": "advanced.bugCommand",
    "fileFiltering": "context.fileFiltering",
    "extensionManagement": "experimental.extensionManagement",
    "tools.enableHooks": "hooksConfig.enabled",
    "model.chatCompression.contextPercentageThreshold": "model.compressionThreshold",
    "chatCompression.contextPercentageThreshold": "model.compressionThreshold",
    "context.loadFromIncludeDirectories": "context.loadMemoryFromIncludeDirectories",
    "tools.approvalMode": "general.defaultApprovalMode",
}
"""Old dotted key -> new dotted key, of those with an effect."""
RESTRICTING = frozenset({"tools.exclude", "mcp.excluded", "advanced.excludedEnvVars"})
"""Lists of which no entry may be lost."""


def rename_old_keys(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`document` with new keys, and the renamed keys (new -> old).

    If both exist the new key wins; restricting lists are combined.
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
        if there is not None:
            value = _join_lists(there, value, new.rpartition(".")[2])
        found = with_value(found, tuple(new.split(".")), value)
        moved[new] = old
    if isinstance(found.get("model"), str):
        found = {**found, "model": {"name": found["model"]}}
        moved["model.name"] = "model"
    for old, translate in TRANSLATED.items():
        if (value := value_at(found, old)) is not None and (made := translate(found, value)):
            found = with_value(found, tuple(made[0].split(".")), made[1])
            moved.setdefault(made[0], old)
    return found, moved


def _join_lists(one: Any, other: Any, key: str) -> Any:
    """The entries of two lists of names, each of which may be written as a text; what is no list,
    so that it is refused, if one of them is none."""
    from alhena.config.coercion import coerce_value

    lists = [coerce_value(each, list[str], key) for each in (one, other)]
    wrong = next((each for each in lists if not isinstance(each, list)), None)
    return union([entry for each in lists for entry in each]) if wrong is None else wrong


_Translation = Callable[[dict[str, Any], Any], tuple[str, Any] | None]
_INVESTIGATOR = "experimental.codebaseInvestigatorSettings"
_OVERRIDE = "agents.overrides.codebase_investigator"


def is_reference_key(key: str) -> bool:
    """True for a key that the reference knows."""
    return key in REFERENCE_KEYS or key.startswith("experimental.")


def _is_false(value: Any) -> bool:
    return value is False or str(value).strip().casefold() == "false"


def _switch_off(key: str, value: Any) -> _Translation:
    """If the old key is false, `key` gets a value."""
    return lambda _document, given: (key, value) if _is_false(given) else None


def _exclude(tool: str) -> _Translation:
    """If the old key is false, a tool is excluded."""

    def translate(document: dict[str, Any], given: Any) -> tuple[str, Any] | None:
        excluded: Any = value_at(document, "tools.exclude") or ()
        return (
            ("tools.exclude", _join_lists(excluded or cast("list[Any]", []), [tool], "exclude"))
            if _is_false(given)
            else None
        )

    return translate


def _move_below(key: str, *, unless: tuple[Any, ...] = ()) -> _Translation:
    """The value goes to a newer key that has none."""

    def translate(document: dict[str, Any], given: Any) -> tuple[str, Any] | None:
        free = given not in unless and value_at(document, key) is None
        return (key, given) if free else None

    return translate


def _limit_thinking(document: dict[str, Any], given: Any) -> tuple[str, Any] | None:
    """The thinking budget of the investigator, for the models that take one."""
    overrides: Any = value_at(document, "modelConfigs.overrides") or cast("list[Any]", [])
    if not isinstance(overrides, list) or isinstance(given, bool) or not isinstance(given, int):
        return None
    config = {"generateContentConfig": {"thinkingConfig": {"thinkingBudget": given}}}
    added = [
        {
            "match": {"model": f"gemini-2.5-{tier}", "overrideScope": "codebase_investigator"},
            "modelConfig": config,
        }
        for tier in ("pro", "flash")
    ]
    return "modelConfigs.overrides", [*added, *cast("list[Any]", overrides)]


TRANSLATED: dict[str, _Translation] = {
    "tools.enableToolOutputTruncation": _switch_off("tools.truncateToolOutputThreshold", 0),
    "useWriteTodos": _exclude("write_todos"),
    "experimental.enableAgents": _switch_off("agents.enabled", False),
    "context.fileFiltering.disableFuzzySearch": lambda _document, given: (
        None if _is_false(given) else ("context.fileFiltering.enableFuzzySearch", False)
    ),
    f"{_INVESTIGATOR}.enabled": _move_below(f"{_OVERRIDE}.enabled"),
    f"{_INVESTIGATOR}.maxNumTurns": _move_below(f"{_OVERRIDE}.runConfig.maxTurns"),
    f"{_INVESTIGATOR}.maxTimeMinutes": _move_below(f"{_OVERRIDE}.runConfig.maxTimeMinutes"),
    f"{_INVESTIGATOR}.model": _move_below(
        f"{_OVERRIDE}.modelConfig.model", unless=("auto", "inherit")
    ),
    f"{_INVESTIGATOR}.thinkingBudget": _limit_thinking,
}
"""Keys of the reference -> the key and value that mean the same here, None where nothing is to be
changed. The keys themselves stay."""

WITHOUT_EFFECT = frozenset(
    {
        *("general.disableAutoUpdate", "general.disableUpdateNag", "general.debugKeystrokeLogging"),
        *("general.enablePromptCompletion", "ui.showLineNumbers", "ui.useAlternateBuffer"),
        *("ui.incrementalRendering", "ide.hasSeenNudge", "tools.enableMessageBusIntegration"),
        *("tools.autoAccept", "useSmartEdit", "advanced.autoConfigureMemory"),
        *("experimental.extensionReloading", "extensions.workspacesWithMigrationNudge"),
        "experimental.isModelAvailabilityServiceEnabled",
    }
)
"""The keys of the reference's 0.21 that have no counterpart here: its looks and its own service."""

_SECTIONS = {
    "": """
        $schema mcpServers policyPaths adminPolicyPaths useWriteTodos useSmartEdit hooks
        autoAccept autoConfigureMaxOldSpaceSize bugCommand customThemes customWittyPhrases
        debugKeystrokeLogging dnsResolutionOrder extensionManagement fileFiltering
        hasSeenIdeIntegrationNudge hideBanner hideContextSummary hideTips preferredEditor
        shellPager shellShowColor showCitations showLineNumbers showMemoryUsage
        skipNextSpeakerCheck summarizeToolOutput useRipgrep
    """,
    "general": """
        preferredEditor openEditorInNewWindow vimMode defaultApprovalMode devtools
        enableAutoUpdate enableAutoUpdateNotification enableNotifications notificationMethod
        checkpointing.enabled plan.enabled plan.directory plan.modelRouting retryFetchErrors
        maxAttempts debugKeystrokeLogging sessionRetention.enabled sessionRetention.maxAge
        sessionRetention.maxCount sessionRetention.minRetention topicUpdateNarration
        logRagSnippets disableAutoUpdate disableUpdateNag enablePromptCompletion
    """,
    "output": """
        format
    """,
    "ui": """
        debugRainbow useFullWidth theme autoThemeSwitching terminalBackgroundPollingInterval
        customThemes hideWindowTitle inlineThinkingMode showStatusInTitle dynamicWindowTitle
        showHomeDirectoryWarning showCompatibilityWarnings hideTips escapePastedAtSymbols
        showShortcutsHint compactToolOutput hideBanner hideContextSummary footer.items
        footer.showLabels footer.hideCWD footer.hideSandboxStatus footer.hideModelInfo
        footer.hideContextPercentage hideFooter collapseDrawerDuringApproval showMemoryUsage
        showLineNumbers showCitations showModelInfoInChat showUserIdentity useAlternateBuffer
        renderProcess terminalBuffer useBackgroundColor incrementalRendering showSpinner
        loadingPhrases errorVerbosity customWittyPhrases accessibility.enableLoadingPhrases
        accessibility.screenReader accessibility.disableLoadingPhrases
    """,
    "ide": """
        enabled hasSeenNudge
    """,
    "privacy": """
        usageStatisticsEnabled
    """,
    "telemetry": """
        enabled target otlpEndpoint otlpProtocol logPrompts outfile useCollector useCliAuth
        traces
    """,
    "billing": """
        overageStrategy vertexAi.requestType vertexAi.sharedRequestType
    """,
    "model": """
        name maxSessionTurns summarizeToolOutput compressionThreshold disableLoopDetection
        skipNextSpeakerCheck chatCompression.contextPercentageThreshold
    """,
    "modelConfigs": """
        aliases customAliases customOverrides overrides modelDefinitions modelIdResolutions
        classifierIdResolutions modelChains
    """,
    "agents": """
        overrides browser.sessionMode browser.headless browser.profilePath browser.visualModel
        browser.allowedDomains browser.disableUserInput browser.maxActionsPerTask
        browser.confirmSensitiveActions browser.blockFileUploads
    """,
    "context": """
        fileName importFormat includeDirectoryTree discoveryMaxDirs memoryBoundaryMarkers
        includeDirectories loadMemoryFromIncludeDirectories fileFiltering.respectGitIgnore
        fileFiltering.respectGeminiIgnore fileFiltering.enableFileWatcher
        fileFiltering.enableRecursiveFileSearch fileFiltering.enableFuzzySearch
        fileFiltering.customIgnoreFilePaths loadFromIncludeDirectories
        fileFiltering.disableFuzzySearch
    """,
    "tools": """
        sandbox sandboxAllowedPaths sandboxNetworkAccess shell.enableInteractiveShell
        shell.backgroundCompletionBehavior shell.pager shell.showColor shell.inactivityTimeout
        shell.enableShellOutputEfficiency core allowed confirmationRequired exclude
        discoveryCommand callCommand useRipgrep truncateToolOutputThreshold disableLLMCorrection
        autoAccept enableToolOutputTruncation truncateToolOutputLines enableHooks
        enableMessageBusIntegration approvalMode
    """,
    "mcp": """
        serverCommand allowed excluded autoAllowInHeadless
    """,
    "security": """
        toolSandboxing disableYoloMode disableAlwaysAllow enablePermanentToolApproval
        autoAddToPolicyByDefault blockGitExtensions allowedExtensions folderTrust.enabled
        environmentVariableRedaction.allowed environmentVariableRedaction.blocked
        environmentVariableRedaction.enabled auth.selectedType auth.enforcedType
        auth.useExternal enableConseca folderTrust.featureEnabled
    """,
    "advanced": """
        autoConfigureMemory dnsResolutionOrder excludedEnvVars ignoreLocalEnv bugCommand
    """,
    "extensions": """
        disabled workspacesWithMigrationNudge
    """,
    "skills": """
        enabled disabled
    """,
    "hooksConfig": """
        enabled disabled notifications
    """,
    "contextManagement": """
        historyWindow.maxTokens historyWindow.retainedTokens messageLimits.normalMaxTokens
        messageLimits.retainedMaxTokens messageLimits.normalizationHeadRatio
        tools.distillation.maxOutputTokens tools.distillation.summarizationThresholdTokens
        tools.outputMasking.protectionThresholdTokens
        tools.outputMasking.minPrunableThresholdTokens tools.outputMasking.protectLatestTurn
    """,
    "admin": """
        secureModeEnabled extensions.enabled mcp.enabled mcp.config mcp.requiredConfig
        skills.enabled
    """,
}
"""Section -> names in it; "" has the names outside sections."""

REFERENCE_KEYS = frozenset(
    f"{section}.{name}" if section else name
    for section, names in _SECTIONS.items()
    for name in names.split()
)
"""All of them, dotted."""


@cache
def known_keys() -> frozenset[str]:
    """The dotted names of all supported keys."""
    return frozenset(_keys(Settings()))


def _keys(value: msgspec.Struct, prefix: str = "") -> Iterator[str]:
    for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        inner = getattr(value, field)
        if isinstance(inner, msgspec.Struct):
            yield from _keys(inner, f"{prefix}{name}.")
        else:
            yield prefix + name
