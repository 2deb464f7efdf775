--TEST--
larder.compute_wait, larder.compute_lease, larder.session_wait and larder.session_lease
--EXTENSIONS--
pcntl
--INI--
larder.enable_cli=1
larder.compute_wait=1
larder.session_wait=1
session.save_handler=larder
session.use_cookies=0
session.use_strict_mode=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$cache = Larder\Cache::shared();
/**
 * Starts a process that calls a function, and waits until it reports that it holds a lease or lock.
 */
function hold(callable $call): int {
    global $cache;
    $cache->delete('held');
    if (($child = pcntl_fork()) === 0) {
        $call();
        exit(0);
    }
    while (!$cache->has('held')) {
        usleep(1000);
    }
    return $child;
}
function seconds(callable $call): float {
    $begin = hrtime(true);
    $call();
    return (hrtime(true) - $begin) / 1e9;
}
function end_of(int $child): void {
    posix_kill($child, 9);
    pcntl_waitpid($child, $status);
}
function compute(): callable {
    return function () { Larder\Cache::shared()->getOrCompute('slow', function () { Larder\Cache::shared()->set('held', 1); sleep(60); }); };
}
$value = null;
$child = hold(compute());
$took = seconds(function () use ($cache, &$value) { $value = $cache->getOrCompute('slow', fn () => 'computed'); });
end_of($child);
var_dump($value, $took > 0.9 && $took < 5);

// A wait of 0 seconds computes immediately.
ini_set('larder.compute_wait', '0');
$cache->delete('slow');
$child = hold(compute());
var_dump(seconds(fn () => $cache->getOrCompute('slow', fn () => 'computed')) < 0.9);
end_of($child);

// A lease of one second ends while the callback continues.
ini_set('larder.compute_lease', '1');
ini_set('larder.compute_wait', '30');
$cache->delete('slow');
$child = hold(compute());
$took = seconds(fn () => $cache->getOrCompute('slow', fn () => 'computed'));
end_of($child);
var_dump($took > 0.5 && $took < 10);

session_id('one');
$child = hold(function () { session_start(); Larder\Cache::shared()->set('held', 1); sleep(60); });
$took = seconds(function () { var_dump(session_start()); });
var_dump($took > 0.9 && $took < 5);
end_of($child);
ini_set('larder.session_lease', '1');
ini_set('larder.session_wait', '30');
session_id('two');
$child = hold(function () { session_start(); Larder\Cache::shared()->set('held', 1); sleep(60); });
$took = seconds(function () { var_dump(session_start()); });
session_write_close();
end_of($child);
var_dump($took > 0.5 && $took < 10);
var_dump(ini_set('larder.session_wait', '-1'), ini_set('larder.session_wait', '1s'), ini_set('larder.session_wait', '1000001'), ini_get('larder.session_wait'));
?>
--EXPECTF--
string(8) "computed"
bool(true)
bool(true)
bool(true)

Warning: session_start(): The session cannot be locked: another thread or process holds the lease; try again later in %s on line %d

Warning: session_start(): Failed to read session data: larder (path: %S) in %s on line %d
bool(false)
bool(true)
bool(true)
bool(true)
bool(false)
bool(false)
bool(false)
string(2) "30"
