#!/bin/bash
# Installs each extension given into a fresh home directory and starts once with it. Prints a line
# each: name, exit codes of both, number of parts, seconds, what was left out. The start runs what the
# extension brings: hooks and servers. Run it by hand:
#   scripts/wild.sh FOLDER…
set -u
alhena=${ALHENA:-$(dirname "$0")/../.venv/bin/alhena}
alhena=$(realpath "$alhena")

for folder in "$@"; do
    folder=$(realpath "$folder")
    home=$(mktemp -d)
    mkdir "$home/project"
    try() {
        (cd "$home/project" && env -i HOME="$home" PATH="$PATH" LANG=C.UTF-8 "$alhena" "$@" \
            </dev/null 2>>"$home/err")
    }
    before=$EPOCHREALTIME
    try extensions install "$folder" --consent >"$home/out"
    installed=$?
    started=-
    if [ "$installed" -eq 0 ]; then
        try -p hello --model demo --skip-trust >"$home/started"
        started=$?
    fi
    after=$EPOCHREALTIME
    parts=$(grep -E "^  (MCP|hook|command|skill|agent|policy|context|excludes)" "$home/out" |
        grep -v "no file of it is checked" | sort -u | wc -l)
    left=$(sed -n 's/^alhena: warning: //p' "$home/err" | grep -v "hook .* says: " |
        sed "s,$home/.gemini/extensions/[^/]*/,,g" | sort -u | cut -c1-160 | paste -sd'|')
    [ "$installed" -ne 0 ] && left=$(tail -n 1 "$home/err" | cut -c1-300)
    seconds=$(((${after/./} - ${before/./}) / 1000))
    printf '%s  install %s  start %s  parts %s  %s.%03d s  left out: %s\n' "$(basename "$folder")" \
        "$installed" "$started" "$parts" $((seconds / 1000)) $((seconds % 1000)) "${left:-nothing}"
    rm -rf "$home"
done
