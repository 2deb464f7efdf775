<?php
// Prints the arguments of PHP for a cache, a line each: `php -n arguments.php CACHE < SETTINGS`.
// build.sh puts this file next to caches.php of php/bench.

require __DIR__ . '/caches.php';

$settings = json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR);
$cache = caches($settings['extensions'], $settings['ours'], $settings['sockets'])[$argv[1]];
echo implode("\n", php_arguments($cache)), "\n";
