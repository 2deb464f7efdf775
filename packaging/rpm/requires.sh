#!/usr/bin/env bash
# Prints the libraries that programs need, as RPM names them: libc.so.6(GLIBC_2.28)(64bit). Reads
# the names of files from standard input, as RPM's find-requires does. cargo-generate-rpm's own
# procedure runs ldd, which cannot read programs of another architecture.
set -euo pipefail

# Prints the libraries of a 64-bit program, each without a version and with each of its versions.
requires_of() {
    readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1()(64bit)/p'
    readelf --version-info --wide "$1" | awk '
        /^Version needs section/ { inside = 1 }
        inside && match($0, /File: [^ ]*/) { file = substr($0, RSTART + 6, RLENGTH - 6) }
        inside && match($0, /Name: [^ ]*/) {
            print file "(" substr($0, RSTART + 6, RLENGTH - 6) ")(64bit)"
        }'
    # Older loaders know only the other hash table.
    readelf --dynamic --wide "$1" | awk '
        /\(GNU_HASH\)/ { gnu = 1 }
        /\(HASH\)/ { other = 1 }
        END { if (gnu && !other) print "rtld(GNU_HASH)" }'
}

# The last line has no line end.
while read -r file || [ -n "$file" ]; do
    if readelf --file-header "$file" >/dev/null 2>&1; then
        requires_of "$file"
    fi
done | sort -u
