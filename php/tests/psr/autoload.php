<?php
// Debian's packages php-cache-integration-tests, php-psr-cache and php-psr-simple-cache.
require 'Cache/IntegrationTests/autoload.php';
require_once 'Psr/SimpleCache/autoload.php';

spl_autoload_register(function (string $class): void {
    $file = __DIR__ . '/../../lib/' . strtr($class, '\\', '/') . '.php';
    is_file($file) && require $file;
});
