"""The keys that the reference knows, also older ones: each may stand in a file, though most do
nothing here. A key that holds an object of any names stands for all that is in it."""

_SECTIONS = {
    "": """
        $schema mcpServers policyPaths adminPolicyPaths useWriteTodos experimental hooks
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
"""Section -> the names in it; "" has those of no section."""

REFERENCE_KEYS = frozenset(
    f"{section}.{name}" if section else name
    for section, names in _SECTIONS.items()
    for name in names.split()
)
"""All of them, dotted."""
