#!/bin/sh
# Runs after the package has been installed or upgraded, by dpkg ("configure") or rpm (1 or 2).
set -e

# The unit's processes read the configuration by this group.
getent group capgate-config >/dev/null || groupadd --system capgate-config
for file in /etc/capgate /etc/capgate/capgate.yaml; do
	# Only what has the group that it was unpacked with: a choice of the operator stays.
	if [ -e "$file" ] && [ "$(stat -c %G "$file")" = root ]; then
		chgrp capgate-config "$file"
	fi
done

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# A running gateway drains, and is replaced. One that does not run is not started.
	# A gateway that does not start does not make the installation fail.
	systemctl try-restart capgate.service ||
		echo "capgate did not restart; systemctl status capgate says why" >&2
fi
