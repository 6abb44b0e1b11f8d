"""Checks a settings file for wrong values and unknown keys, and renames keys of older versions and
of the reference."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from alhena.config.documents import union, value_at, with_value, without_value
from alhena.config.settings import Settings, known_keys

MAX_TOLD = 20
"""Maximum wrong values reported per file."""
MAX_MESSAGE = 200
"""Maximum characters of one message."""
_KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "null": "null",
}
_PLACE = re.compile(r" - at `(?:key in `)?\$([^`]*)`*$")


_COMFORT = (
    *("ui", "ide", "contextManagement", "hooksConfig.notifications", "context.importFormat"),
    *("context.includeDirectoryTree", "context.discoveryMaxDirs", "general.enableNotifications"),
    *("general.notificationMethod", "general.vimMode", "general.maxAttempts"),
    *("general.retryFetchErrors", "model.compressionThreshold", "tools.shell.pty"),
    *("tools.shell.enableInteractiveShell", "tools.truncateToolOutputThreshold"),
)
"""Keys and sections of looks and comfort, whose wrong values are ignored. Others restrict
something, or say where something goes."""


class WrongValue(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid value of a settings file: its place and the reason, and the remedy."""

    path: tuple[str, ...]
    told: str
    remedy: str

    @property
    def is_comfort(self) -> bool:
        """True if the value only concerns looks or comfort."""
        key = ".".join(self.path)
        return any(key == each or key.startswith(f"{each}.") for each in _COMFORT)


def wrong_values(
    document: Any, file: str, line_of: Callable[[tuple[str, ...]], int | None]
) -> list[WrongValue]:
    """The invalid values of a document in document order. `line_of` returns the line of a key's
    value."""
    found: list[WrongValue] = []
    while len(found) < MAX_TOLD:
        try:
            msgspec.convert(document, Settings)
        except msgspec.ValidationError as error:
            text = str(error)
        else:
            break
        place = _PLACE.search(text)
        said = place[1] if place else ""
        path = tuple(name for name in said.partition("[")[0].split(".") if name)
        message = plain_message(text[: place.start()] if place else text)
        entry = said[said.index("[") :] if "[" in said else ""
        line = line_of(path)
        told = (file if line is None else f"{file}:{line}", ".".join(path) + entry, message)
        remedy = _remedy(path, message)
        found.append(WrongValue(path=path, told=": ".join(filter(None, told)), remedy=remedy))
        if not path:
            break
        document = without_value(cast("dict[str, Any]", document), path)
    return found


def unused_keys(document: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys without effect here: those of the reference, and unknown ones."""
    known, sections = known_keys(), _sections()
    for name, value in document.items():
        path = (*above, name)
        key = ".".join(path)
        if key in known or key == "$schema":
            continue
        if key in sections and isinstance(value, dict):
            yield from unused_keys(cast("dict[str, Any]", value), path)
        else:
            yield path


@cache
def _sections() -> frozenset[str]:
    names = (key.split(".") for key in known_keys() | REFERENCE_KEYS)
    return frozenset(".".join(parts[:count]) for parts in names for count in range(1, len(parts)))


def similar_key(path: tuple[str, ...]) -> str | None:
    """The most similar known key or section, or the key with the same last name in another
    section."""
    from difflib import get_close_matches

    every = known_keys() | REFERENCE_KEYS | _sections()
    last = path[-1].casefold()
    same = sorted(key for key in every if key.rpartition(".")[2].casefold() == last)
    if len(same) == 1:
        return same[0]
    return next(iter(get_close_matches(".".join(path), sorted(every), n=1, cutoff=0.8)), None)


def plain_message(text: str) -> str:
    """Converts msgspec's message to plain words."""
    found = re.fullmatch(r"Expected `(.+)`, got `(.+)`", text)
    if found is None:
        return text.replace("`", "").rstrip(".")[:MAX_MESSAGE]
    wanted = " or ".join(_KINDS.get(kind.strip(), kind.strip()) for kind in found[1].split("|"))
    return f"it has to be {wanted}, not {_KINDS.get(found[2], found[2])}"


def _remedy(path: tuple[str, ...], message: str) -> str:
    allowed = _accepted_words(path) if message.startswith("Invalid enum value") else ()
    if allowed:
        return f"Write {', '.join(allowed[:-1])} or {allowed[-1]}, or remove the key."
    return "Correct that value or remove the key."


def _accepted_words(path: tuple[str, ...]) -> tuple[str, ...]:
    """The words that a key accepts; none for a key with other values."""
    kind: Any = Settings
    for name in path:
        fields = msgspec.structs.fields(kind)
        kind = next((field.type for field in fields if field.encode_name == name), None)
        if kind is None:
            return ()
    kinds = (kind,) if get_origin(kind) is Literal else get_args(kind)
    words = [each for one in kinds if get_origin(one) is Literal for each in get_args(one)]
    return tuple(str(word) for word in words)


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
    return found, moved


def _join_lists(one: Any, other: Any, key: str) -> Any:
    """The entries of two lists of names, each of which may be written as a text; what is no list,
    so that it is refused, if one of them is none."""
    from alhena.config.coercion import coerce_value

    lists = [coerce_value(each, list[str], key) for each in (one, other)]
    wrong = next((each for each in lists if not isinstance(each, list)), None)
    return union([entry for each in lists for entry in each]) if wrong is None else wrong


_SECTIONS = {
    "": """
        $schema mcpServers policyPaths adminPolicyPaths useWriteTodos experimental hooks
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
        debugRainbow theme autoThemeSwitching terminalBackgroundPollingInterval customThemes
        hideWindowTitle inlineThinkingMode showStatusInTitle dynamicWindowTitle
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
