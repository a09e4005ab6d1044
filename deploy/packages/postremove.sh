#!/bin/sh
# Runs after the package has been removed. The group stays, as files may have it.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf /var/log/private/capgate /var/log/capgate
fi
