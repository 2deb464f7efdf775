#!/usr/bin/env bash
# Loads larder_apcu and igbinary in both orders, and runs APCu's status page: `loading.sh IGBINARY
# [APC_PHP]`. IGBINARY is igbinary.so, APC_PHP the file apc.php of APCu's source.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$(cd "$here/../.." && pwd)/target}
ours=$target/php/larder_apcu.so
igbinary=$1 page=${2:-}

fail() {
    echo "loading.sh: $*" >&2
    exit 1
}

# igbinary stores repeated strings once, so the item is much smaller than with serialize().
code='$value = (object) ["list" => array_fill(0, 100, "a string that repeats")];
    apcu_store("key", $value);
    $item = (new APCUIterator(["key"], APC_ITER_MEM_SIZE))->current();
    ob_start(); phpinfo(INFO_MODULES);
    preg_match("/^Serialization Support => (.*)$/m", ob_get_clean(), $names);
    echo apcu_fetch("key") == $value ? "equal" : "different", ", ",
        $item["mem_size"] < 1500 ? "igbinary" : "php", ", ", $names[1];'

check() {
    local wanted=$1 printed
    shift
    printed=$(php -n "$@" -d apc.enable_cli=1 -r "$code")
    [ "$printed" = "$wanted" ] || fail "$*: $printed instead of $wanted"
}

check 'equal, igbinary, php, igbinary' -d "extension=$ours" -d "extension=$igbinary" \
    -d apc.serializer=igbinary
check 'equal, igbinary, php, igbinary' -d "extension=$igbinary" -d "extension=$ours" \
    -d apc.serializer=igbinary
check 'equal, php, php, igbinary' -d "extension=$igbinary" -d "extension=$ours"
check 'equal, php, php' -d "extension=$ours" -d apc.serializer=igbinary
php -n -d "extension=$ours" -d "extension=apcu" -r '' 2>&1 | grep -q 'apcu' \
    || fail 'PHP loads APCu together with larder_apcu'

# Prints a view of the status page, after some stores. The page divides by the age of the cache.
print_page() {
    php -n -d "extension=$ours" -d apc.enable_cli=1 -d display_errors=1 -r '
        apcu_store("a key of the page", ["x" => 1], 100);
        apcu_store("another", str_repeat("v", 10000));
        sleep(1);
        define("USE_AUTHENTICATION", 0);
        $_SERVER += ["SERVER_NAME" => "localhost", "SERVER_SOFTWARE" => "cli"];
        $_GET = $_REQUEST = ["OB" => $argv[2], "SCOPE" => "A"];
        include $argv[1];' "$page" "$1" 2>&1
}

if [ -n "$page" ]; then
    for view in 1 2; do
        printed=$(print_page $view)
        ! grep -i 'warning: \|notice: \|fatal error\|deprecated: ' <<<"$printed" \
            || fail "apc.php reports errors in view $view"
    done
    grep -q 'a key of the page' <<<"$printed" || fail 'apc.php does not list the keys'
fi
echo 'loading.sh: all well'
