#!/usr/bin/env bash
# Builds PHP with threads (ZTS) from Debian's source: `build.sh FOLDER`, into FOLDER/php. It fetches
# the source with a private configuration of apt. The result is a debug build, which reports memory
# that a request leaks.
set -euo pipefail

folder=$1
here=$(cd "$(dirname "$0")" && pwd)
prefix=$folder/php

# Fetches the source of Debian's release, which is older than the source of its updates.
fetch() {
    local apt=$folder/apt suite mirror
    mirror=$("$here/../../../packaging/debian-mirror.sh")
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    rm -rf "$apt" "$folder/source"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/source" "$folder/source"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "$mirror $suite main" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<-END
	Dir::Etc::sourcelist "$apt/sources.list";
	Dir::Etc::sourceparts "-";
	Dir::State::lists "$apt/lists";
	Dir::Cache "$apt/cache";
	APT::Sandbox::User "";
	END
    APT_CONFIG=$apt/apt.conf apt-get update -qq
    (cd "$apt/source" && APT_CONFIG=$apt/apt.conf apt-get source -qq --tar-only php8.2)
    tar -xf "$apt"/source/*.orig.tar.* --strip-components=1 -C "$folder/source"
    rm -rf "$apt"
}

# The tests need the modules for processes and sessions. The JIT compiler of PCRE is not needed, and
# is disabled.
build() {
    cd "$folder/source"
    ./configure --quiet --prefix="$prefix" --disable-all --disable-cgi --disable-phpdbg \
        --enable-cli --enable-embed=shared --enable-zts --enable-debug --without-pcre-jit \
        --enable-session --enable-posix=shared --enable-pcntl
    nice make -s -j2
    make -s install
}

fetch
build
touch "$prefix/ready"
