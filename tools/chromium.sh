#!/usr/bin/env bash
# Check that Chromium is installed, for `make test-report`. Install Debian's package if possible; else print how to.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then
    exit 0
  fi
done
way_out="install it (on Debian: apt-get install chromium)"
if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
  echo "test-report: there is no Chromium; $way_out" >&2
  exit 2
fi
echo "test-report: installing chromium"
apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
  { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } ||
  { echo "test-report: apt-get can't get chromium; $way_out" >&2; exit 2; }
