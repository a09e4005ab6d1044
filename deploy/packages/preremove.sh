#!/bin/sh
# Runs before the package is removed, by dpkg ("remove") or rpm (0). An upgrade does not stop the gateway here.
set -e

if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now capgate.service ||
			echo "capgate.service could not be stopped and disabled" >&2
	fi
fi
