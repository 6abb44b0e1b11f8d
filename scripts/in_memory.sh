#!/bin/sh
# Runs a command (`make test`: the tests) with the files of tests in memory, where this user may
# mount one: a disk is waited for. They are gone when it ends.
mount="mount -t tmpfs tests /srv"
if [ "$(id -u)" = 0 ] && unshare --mount $mount 2> /dev/null; then
  exec unshare --mount sh -c "$mount"' && PYTEST_DEBUG_TEMPROOT=/srv exec "$@"' sh "$@"
fi
exec "$@"
