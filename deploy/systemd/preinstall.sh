#!/bin/sh
# The user of txcoord.service, before the package's files name its group.
set -e
if ! getent passwd txcoord >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/txcoord --no-create-home --shell /usr/sbin/nologin txcoord
fi
