#!/bin/sh
# Runs after the package has been removed. The group stays, as files may have it.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
# Audit logs are evidence: also a purge keeps them.
logs=/var/log/private/capgate
[ -d "$logs" ] || logs=/var/log/capgate
if [ "$1" = purge ] && [ -n "$(ls -A "$logs" 2>/dev/null)" ]; then
	echo "the logs in $logs stay; delete them by hand if they are no longer needed" >&2
fi
