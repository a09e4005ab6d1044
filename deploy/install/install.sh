#!/bin/sh
# Installs a release of capgate for the current user:
#
#   sh install.sh [--version VERSION] [--dir DIRECTORY]
#   sh install.sh --uninstall [--dir DIRECTORY]
#
# It downloads the archive for this machine, verifies the signature of the release's checksums with the public key below,
# and the checksum of the archive. Then it puts programs, man pages and completions below DIRECTORY, by default ~/.local.
# Nothing is changed if a check fails. It needs curl or wget, openssl, tar, and no root.
#
# CAPGATE_RELEASES is the address of the releases, for mirrors.
set -eu

version='@VERSION@'
releases=${CAPGATE_RELEASES:-https://github.com/capgate/capgate/releases}
public_key='@PUBLIC_KEY@'

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

usage() {
	echo "usage: sh install.sh [--version VERSION] [--dir DIRECTORY] [--uninstall]"
}

# platform prints the operating system and the architecture as they are in names of archives.
platform() {
	system=$(uname -s) machine=$(uname -m)
	case $system in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) fail "there is no program for $system; build it from source" ;;
	esac
	case $machine in
	x86_64 | amd64) machine=amd64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) fail "there is no program for $machine; build it from source" ;;
	esac
	echo "${system}_$machine"
}

# download FILE gets a file of the release into the temporary directory.
download() {
	url=$releases/download/$version/$1
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --connect-timeout 30 --output "$temporary/$1" "$url"
	elif command -v wget >/dev/null 2>&1; then
		wget --quiet --timeout=30 --output-document="$temporary/$1" "$url"
	else
		fail "neither curl nor wget is installed; install one of them"
	fi || fail "$url cannot be downloaded; check the version and the network"
}

# verify ARCHIVE checks the signature of the checksums, and the checksum of the archive. The signed line has the name of
# the archive with its version, so that no other release passes for it.
verify() {
	command -v openssl >/dev/null 2>&1 || fail "openssl is not installed; it verifies the signature"
	printf '%s\n' "$public_key" >"$temporary/key.pem"
	openssl base64 -d -A -in "$temporary/checksums.txt.sig" -out "$temporary/signature" ||
		fail "checksums.txt.sig is no signature; do not use this download"
	openssl dgst -sha256 -verify "$temporary/key.pem" -signature "$temporary/signature" "$temporary/checksums.txt" \
		>/dev/null 2>&1 || fail "the signature of checksums.txt is wrong; do not use this download"
	expected=$(awk -v name="$1" '$2 == name { print $1 }' "$temporary/checksums.txt")
	[ -n "$expected" ] || fail "$1 is not in checksums.txt; check the version"
	actual=$(openssl dgst -sha256 "$temporary/$1" | sed 's/.*= *//')
	[ "$expected" = "$actual" ] || fail "the checksum of $1 is wrong; do not use this download"
}

# put FILE PLACE MODE puts an unpacked file below the directory. A running program keeps its file. The place is added to
# the list first, so that an installation that was interrupted can be removed.
put() {
	echo "$2" >>"$list"
	echo "$2" >>"$temporary/installed"
	mkdir -p "$directory/${2%/*}"
	cp "$temporary/unpacked/$1" "$directory/$2.new"
	chmod "$3" "$directory/$2.new"
	mv -f "$directory/$2.new" "$directory/$2"
}

# remove PLACE removes an installed file, if the place is one of capgate.
remove() {
	case $1 in
	bin/capgate | bin/capgate-forward | share/*capgate*) rm -f "$directory/$1" "$directory/$1.new" ;;
	esac
}

# check_version fails if the version is not one of a release.
check_version() {
	case $version in
	v[0-9]*) ;;
	*) fail "the version is \"$version\"; write it as v0.1.0" ;;
	esac
	case $version in
	*[!v0-9A-Za-z.-]*) fail "the version is \"$version\"; write it as v0.1.0" ;;
	esac
}

install() {
	check_version
	archive=capgate_${version#v}_$(platform).tar.gz
	temporary=$(mktemp -d)
	trap 'rm -rf "$temporary"' EXIT
	trap 'exit 1' HUP INT TERM
	download checksums.txt
	download checksums.txt.sig
	download "$archive"
	verify "$archive"
	mkdir "$temporary/unpacked"
	tar -xzf "$temporary/$archive" -C "$temporary/unpacked"
	mkdir -p "${list%/*}"
	put capgate bin/capgate 755
	put capgate-forward bin/capgate-forward 755
	put man/capgate.1 share/man/man1/capgate.1 644
	put man/capgate.yaml.5 share/man/man5/capgate.yaml.5 644
	put completions/capgate.bash share/bash-completion/completions/capgate 644
	put completions/_capgate share/zsh/site-functions/_capgate 644
	put completions/capgate.fish share/fish/vendor_completions.d/capgate.fish 644
	# What an earlier release put and this one does not have.
	while read -r file; do
		grep -qxF "$file" "$temporary/installed" || remove "$file"
	done <"$list"
	cp "$temporary/installed" "$list.new"
	mv -f "$list.new" "$list"
	echo "capgate $version is in $directory/bin."
	case ":$PATH:" in
	*":$directory/bin:"*) ;;
	*) echo "Add it to your PATH: export PATH=\"$directory/bin:\$PATH\"" ;;
	esac
	echo "Then try it: capgate demo"
}

# uninstall removes what was installed. Configurations stay.
uninstall() {
	[ -f "$list" ] || fail "nothing is installed in $directory"
	while read -r file; do
		remove "$file"
	done <"$list"
	rm -f "$list" "$list.new"
	rmdir "$directory/share/capgate" 2>/dev/null || true
	echo "capgate is no longer in $directory."
}

main() {
	command=install
	directory=
	while [ $# -gt 0 ]; do
		case $1 in
		--version | --dir)
			[ $# -gt 1 ] || fail "$1 needs a value"
			if [ "$1" = --dir ]; then directory=$2; else version=$2; fi
			shift
			;;
		--uninstall) command=uninstall ;;
		--help) usage && exit 0 ;;
		*) usage >&2 && exit 2 ;;
		esac
		shift
	done
	[ -n "$directory" ] || [ -n "${HOME:-}" ] || fail "HOME is not set; name a directory with --dir"
	[ -n "$directory" ] || directory=$HOME/.local
	list=$directory/share/capgate/installed
	$command
}

# A download that was cut off runs nothing.
main "$@"
