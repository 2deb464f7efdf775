#!/usr/bin/env bash
# Runs Symfony's tests of its ApcuAdapter, the three slow ones included, and a small program for
# each framework that uses APCu: `run.sh MODULE`. The tests are in Debian's source package of
# Symfony, which is fetched into target/php.
set -euo pipefail
cd "$(dirname "$0")/../../.."

module=$(realpath "$1")
source=target/php/symfony
conformance/debian_source.sh symfony 5.4.53+dfsg "$source"
cache=src/Symfony/Component/Cache
# Removes the list of slow tests that Symfony skips for this adapter, so that they run also.
sed '/protected \$skippedTests/,/];/d' "$source/$cache/Tests/Adapter/ApcuAdapterTest.php" \
    >"$source/$cache/Tests/Adapter/WholeApcuAdapterTest.php"
sed -i 's/class ApcuAdapterTest/class WholeApcuAdapterTest/' \
    "$source/$cache/Tests/Adapter/WholeApcuAdapterTest.php"
cat >"$source/bootstrap.php" <<'PHP'
<?php
require '/usr/share/php/Symfony/Component/Cache/autoload.php';
require '/usr/share/php/Cache/IntegrationTests/autoload.php';
spl_autoload_register(function (string $class): void {
    $prefix = 'Symfony\\Component\\Cache\\Tests\\';
    if (str_starts_with($class, $prefix)) {
        require __DIR__ . '/src/Symfony/Component/Cache/Tests/'
            . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
    }
});
PHP
# Debian's apcu, if it is installed, is not loaded.
scan=$(mktemp -d)
trap 'rm -rf "$scan"' EXIT
find /etc/php/8.2/cli/conf.d -name '*.ini' ! -name '*apcu*' -exec ln -s -t "$scan" {} +
export PHP_INI_SCAN_DIR=$scan
php=(php -d extension="$module" -d apc.enable_cli=1 -d apc.shm_size=64M)
"${php[@]}" -r 'extension_loaded("apcu") or exit("the module does not load\n");'
"${php[@]}" /usr/bin/phpunit --bootstrap "$source/bootstrap.php" --no-configuration \
    --do-not-cache-result \
    "$source/$cache/Tests/Adapter/WholeApcuAdapterTest.php"
for framework in symfony doctrine laravel; do
    "${php[@]}" php/tests/components/hits.php "$framework"
done
