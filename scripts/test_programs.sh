#!/usr/bin/env bash
# Installs the programs that some tests need and that a machine may lack. Each test that lacks its
# program is skipped; nothing here is needed to use alhena.
set -u
cd "$(dirname "$0")/.."

missing=()
for pair in bwrap:bubblewrap rg:ripgrep zsh:zsh fish:fish jq:jq gawk:gawk less:less \
  chromium:chromium localedef:locales shellcheck:shellcheck; do
  command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
done

if [ ${#missing[@]} -gt 0 ]; then
  if command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing ${missing[*]} ..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # One by one: what one system lacks keeps no other from being there.
    for package in "${missing[@]}"; do
      apt-get install -y -qq --no-install-recommends "$package" > /dev/null 2>&1 ||
        echo "could not install $package"
    done
  else
    echo "missing: ${missing[*]}. Install them with the system's package manager, as root."
  fi
fi

if [ ! -d node_modules/@agentclientprotocol/sdk ]; then
  if command -v npm > /dev/null; then
    npm install --silent --no-fund --no-audit --no-save --no-package-lock --prefix . \
      @agentclientprotocol/sdk || echo "could not install @agentclientprotocol/sdk"
  else
    echo "missing: npm, for the package @agentclientprotocol/sdk"
  fi
fi
