#!/usr/bin/env bash
# Runs the tests of APCu on larder_apcu: `apcu_suite.sh`. It fetches Debian's source of php-apcu,
# builds the normal and the debug build, and runs each test on both with run-tests.php. The tests
# start servers at ports 16820 to 16822. EXTRA_ARGS are arguments of run-tests.php, such as -m.
# `apcu_suite.sh --fetch` only fetches the source. PHP, PHPIZE, PHP_CONFIG and PHP_OUT name another
# PHP and the folder of its builds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
version=5.1.22+4.0.11
source=${APCU_SOURCE:-$target/php/apcu-source}
php=${PHP:-php}
out=${PHP_OUT:-$target/php}

# Tests that may fail, with the reasons.
declare -A exceptions=(
    [apc_019]="an entry that another key of its slot removes, because apc.ttl has passed"
    [apc_020]="apc.ttl decides which entries make room: Larder's eviction does"
)

# Tests for older PHP, two for a PHP without threads (ZTS), and two for PHP's own allocator, which
# skip themselves. The normal build also skips the tests of the debug build.
skipped=4
[ "${USE_ZEND_ALLOC:-}" != 0 ] || skipped=6
"$php" -n -r 'exit(PHP_ZTS);' || skipped=$((skipped + 2))
skipped_debug_tests=5

[ -n "${APCU_SOURCE:-}" ] || "$root/conformance/debian_source.sh" php-apcu "$version" "$source" 0
[ "${1:-}" != --fetch ] || exit 0
tests=$(find "$source" -path '*apcu-5*/tests' -type d)
[ -n "$tests" ] || { echo "apcu_suite.sh: no tests below $source" >&2; exit 1; }

# Adapts the tests to newer versions of PHP, which print other texts and have other defaults.
adapt() {
    local folder=$1 version
    version=$("$php" -n -r 'echo PHP_VERSION_ID;')
    [ "$version" -lt 80300 ] || sed -i 's/^Cannot assign bool to /Cannot assign true to /' \
        "$folder/typed_prop.phpt"
    [ "$version" -lt 80400 ] || sed -i "s/{closure}('test')/{closure:%s:2}('test')/" \
        "$folder/apc_entry_002.phpt"
    if [ "$version" -ge 80500 ]; then
        # A missing trait is an exception, whose text contains the stack trace.
        sed -i '/^Fatal error: %s$/{
            s/%s/Uncaught Error: Trait "T" not found in %s:4/
            r /dev/stdin
        }' "$folder/apc_entry_003.phpt" <<-'END'
		Stack trace:
		#0 [internal function]: {closure:%s:2}('test')
		#1 %s(2): apcu_entry('test', Object(Closure))
		#2 {main}
		  thrown in %s on line 4
		END
        # A warning reports that the setting is deprecated.
        sed -i '/^report_memleaks=0$/d' "$folder"/apc_006*.phpt
    fi
    # The test chooses the id of its session. Strict mode, the new default, refuses this.
    [ "$version" -lt 80600 ] || sed -i 's/^\$args = array($/&"session.use_strict_mode=0",/' \
        "$folder/bug63224.phpt"
}

# Runs the suite on one build. The servers of some tests load modules/apcu.so from the tests'
# folder.
run_build() {
    local file=$1 name=$2
    local folder=$out/suite/$name
    rm -rf "$folder"
    mkdir -p "$folder/modules"
    cp -r "$tests" "$folder/tests"
    adapt "$folder/tests"
    cp "$file" "$folder/modules/apcu.so"
    echo "== $name"
    # It exits with 1 if any test fails, including an accepted one. `judge` decides by the results,
    # and fails if no test ran.
    (cd "$folder" && TEST_PHP_EXECUTABLE=$(command -v "$php") NO_INTERACTION=1 \
        "$php" "$out/build/run-tests.php" -q -n --no-color --no-progress \
        -d "extension=$folder/modules/apcu.so" ${EXTRA_ARGS:-} -W results --show-diff tests) \
        >"$folder/log" 2>&1 || true
    sed -n '/^Number of tests/,/^Time taken/p' "$folder/log"
    "$root/.ci/skips-of" phpt "apcu $name" "$folder/log"
}

# Fails if a test failed that is not in the list of exceptions, or if too few tests ran.
judge() {
    local folder=$out/suite/$1 wanted=$2 failed=0 count
    # grep exits with 1 if it counts 0 lines; the check for too few tests follows.
    count=$(grep -vc '^SKIPPED' "$folder/results" || true)
    while read -r test; do
        test=$(basename "$test" .phpt)
        if [ -n "${exceptions[$test]:-}" ]; then
            echo "accepted: $test: ${exceptions[$test]}"
        else
            echo "FAILED: $test: see $folder/tests/$test.diff"
            failed=1
        fi
    done < <(sed -n 's/^\(FAILED\|BORKED\|LEAKED\|WARNED\)[[:space:]]*//p' "$folder/results")
    [ "$count" -ge "$wanted" ] || { echo "FAILED: $count of $wanted tests ran"; failed=1; }
    return $failed
}

make -s -C "$here/.." extension debug >"$out/suite-build.log" 2>&1 || {
    cat "$out/suite-build.log"
    exit 1
}
outcome=0
run_build "$out/larder_apcu.so" normal
judge normal $((67 - skipped - skipped_debug_tests)) || outcome=1
run_build "$out/larder_apcu_debug.so" debug
judge debug $((67 - skipped)) || outcome=1
exit $outcome
