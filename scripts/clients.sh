#!/bin/sh
# Installs clients of other people in FOLDER and tries them against the gateway (docs/gateway.md):
#
#     scripts/clients.sh FOLDER [NAME...]
#
# NAME is the beginning of a client's name; all are tried without one. Needs npm for most of them; what
# cannot be installed is told as untried. Outputs and logs are in FOLDER/trials.
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1" || exit 1
folder=$(cd "$1" && pwd)
shift
python="$here/.venv/bin/python"

npm_packages="@anthropic-ai/claude-code @openai/codex @google/gemini-cli @qwen-code/qwen-code opencode-ai
    @mariozechner/pi-coding-agent @continuedev/cli @charmland/crush
    ai zod @ai-sdk/openai @ai-sdk/openai-compatible @ai-sdk/anthropic @ai-sdk/google"
mkdir -p "$folder/npm"
[ -f "$folder/npm/package.json" ] || echo '{"private": true}' >"$folder/npm/package.json"
if command -v npm >/dev/null; then
    for package in $npm_packages; do # one by one: some cannot be installed everywhere
        [ -d "$folder/npm/node_modules/$package" ] && continue
        npm install --prefix "$folder/npm" --no-audit --no-fund "$package" >"$folder/npm.log" 2>&1 ||
            echo "$package could not be installed: $(tail -n 1 "$folder/npm.log")" >&2
    done
else
    echo "npm is not there: clients from npm stay untried" >&2
fi

environments=""
install() { # NAME PACKAGE...: an environment of its own for packages that do not go together
    environment="$folder/$1"
    shift
    if [ ! -f "$environment/done" ]; then
        "$python" -m uv venv -q --clear "$environment" &&
            "$python" -m uv pip install -q --python "$environment/bin/python" "$@" >&2 &&
            touch "$environment/done"
    fi || echo "$* could not be installed" >&2
    environments="$environments --python $environment"
}
install agents openai-agents
install langchain langchain-core langchain-openai langchain-anthropic langchain-google-genai
install pydantic-ai "pydantic-ai-slim[openai,anthropic,google]"
install llama-index llama-index-llms-openai-like llama-index-llms-anthropic llama-index-llms-google-genai "anthropic<1"
install llm llm
install aider aider-chat

cd "$here" || exit 1
# shellcheck disable=SC2086 # each word is an argument
exec "$python" -m scripts.clients.run --npm "$folder/npm" $environments --keep "$folder/trials" "$@"
