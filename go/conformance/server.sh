#!/usr/bin/env bash
# Suites of memcached clients on examples/cacheserver, a server of a Go cache: memccapable, the
# tests of gomemcache, and the integration tests of pymemcache.
set -euo pipefail

clients=$(cd "$(dirname "$0")/../../conformance/clients" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$(dirname "$0")/../examples" && go build -o "$folder/cacheserver" ./cacheserver)
# The suites start a memcached. This script converts its options to the options of the program.
cat >"$folder/memcached" <<END
#!/usr/bin/env bash
host=127.0.0.1 port=11211 listen=
while [ \$# -gt 0 ]; do
    case \$1 in
    -l) host=\$2 ;;
    -p) port=\$2 ;;
    -p*) port=\${1#-p} ;;
    -s) listen=\$2 ;;
    esac
    shift
done
exec "$folder/cacheserver" -listen "\${listen:-\$host:\$port}"
END
chmod +x "$folder/memcached"
export LARDERD=$folder/memcached
# This test changes the memory limit, which the server of a Go cache does not support.
export PYTEST_ADDOPTS="--deselect pymemcache/test/test_integration.py::test_misc"
for suite in "${@:-memccapable gomemcache pymemcache}"; do
    for name in $suite; do
        "$clients/$name.sh"
    done
done
