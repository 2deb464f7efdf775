<?php
// Runs the loads on one cache in this process, and prints their times as one line of JSON:
// `php ARGUMENTS load.php CACHE WORKERS < SETTINGS`. `run.php` starts it. The settings are the
// arguments of `caches()` as JSON. With `together` as a third argument a single worker also runs
// the loads of several.
//
// A pass is a loop over all keys. The first pass of a write takes the memory from the system and is
// reported separately. Values of 8 KB are made before each batch, outside the measured time. Each
// store has a new value, because a second store of the same value would be faster in APCu, which
// keeps its hash. Every value is compared once after the writes. No read may miss in any pass,
// except reads of keys that were never stored.

require __DIR__ . '/caches.php';

const KEYS = 50_000;
const KEYS_OF_SERVERS = 5_000;
const PASSES = 6;
const BATCH = 500;
const COUNTERS = 1_000;
const SECONDS_OF_WORKERS = 1.5;

$name = $argv[1];
$settings = json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR);
$cache_code = caches($settings['extensions'], $settings['ours'], $settings['sockets'])[$name];
$workers = (int) $argv[2];
$count = $cache_code['is_remote'] ? KEYS_OF_SERVERS : KEYS;

$keys = array_map(fn (int $at) => sprintf('user:%06d', $at), range(0, $count - 1));
$shuffled = $keys;
mt_srand(1);
shuffle($shuffled);

$is_together = $workers > 1 || ($argv[3] ?? '') === 'together';
echo json_encode($is_together ? of_workers($cache_code, $keys, $workers)
    : of_one($cache_code, $keys, $shuffled)), "\n";

/** Returns the times of one process: nanoseconds per operation, one number for each pass. */
function of_one(array $code, array $keys, array $shuffled): array
{
    $write = loop($code, "{$code['set']} !== true");
    $read = loop($code, "{$code['get']} === false");
    $short = array_map(fn (string $key) => "value of $key", $keys);
    $times = ['write short' => passes($write, $keys, fn () => $short)];
    verify($code, $keys, $short);
    $times['read short'] = passes($read, $keys);
    $times['read short, shuffled'] = passes($read, $shuffled);
    $times['write short, shuffled'] = passes($write, $shuffled, fn () => $short);
    $missing = array_map(fn (string $key) => "no $key", $keys);
    $times['read missing'] = passes(loop($code, "{$code['get']} !== false"), $missing);
    if ($code['increment'] !== null) {
        $counters = array_slice($keys, 0, COUNTERS);
        passes($write, $counters, fn () => array_fill(0, COUNTERS, 0));
        $turns = array_merge(...array_fill(0, intdiv(count($keys), COUNTERS), $counters));
        $times['increment'] = passes(loop($code, "{$code['increment']} === false"), $turns);
        passes($write, $counters, fn () => $short);
    }
    $long = fn (int $pass) => fn (string $key) => long_value($key, $pass);
    $times['write 8 KB'] = passes($write, $keys, $long);
    verify($code, $keys, array_map($long(PASSES - 1), array_slice($keys, 0, 1000)));
    $times['read 8 KB'] = passes($read, $keys);
    $times['read 8 KB, shuffled'] = passes($read, $shuffled);
    $times['empty loop'] = passes(loop(['open' => ''], 'false'), $keys, fn () => $short);
    return $times;
}

/** Returns a loop over keys and values, which counts the operations that failed. */
function loop(array $code, string $fails): callable
{
    return eval("{$code['open']} return function (array \$keys, array \$values) use (&\$cache) {
        \$failed = 0;
        \$begun = hrtime(true);
        foreach (\$keys as \$at => \$key) {
            \$value = \$values[\$at];
            if ($fails) { ++\$failed; }
        }
        return [hrtime(true) - \$begun, \$failed];
    };");
}

/**
 * Runs the passes of a loop. `$values` returns the values of a pass, or makes the value of a key.
 */
function passes(callable $loop, array $keys, ?callable $values = null): array
{
    $times = [];
    for ($pass = 0; $pass < PASSES; ++$pass) {
        $of_pass = $values === null ? $keys : $values($pass);
        $nanoseconds = 0;
        for ($at = 0; $at < count($keys); $at += BATCH) {
            $batch = array_slice($keys, $at, BATCH);
            $of_batch = is_array($of_pass) ? array_slice($of_pass, $at, BATCH)
                : array_map($of_pass, $batch);
            [$took, $failed] = $loop($batch, $of_batch);
            $failed === 0 or fail("$failed operations failed in pass $pass");
            $nanoseconds += $took;
        }
        $times[] = $nanoseconds / count($keys);
    }
    return $times;
}

/** Compares the values of the first keys. */
function verify(array $code, array $keys, array $values): void
{
    $get = eval("{$code['open']} return function (\$key) use (&\$cache) { return {$code['get']}; };");
    foreach ($values as $at => $value) {
        $get($keys[$at]) === $value or fail("the value of {$keys[$at]} is wrong");
    }
}

function long_value(string $key, int $pass): string
{
    return str_pad("$key $pass ", 8192, 'the quick brown fox jumps over the lazy dog ');
}

/** Returns millions of operations per second of several processes that share the cache. */
function of_workers(array $code, array $keys, int $workers): array
{
    passes(loop($code, "{$code['set']} !== true"), $keys, fn () => $keys);
    $fails = [
        'reads' => "{$code['get']} === false",
        'a tenth writes' => "(\$at % 10 ? {$code['get']} : {$code['set']}) === false",
    ];
    if ($code['increment'] !== null) {
        eval("{$code['open']} \$key = 'counter'; \$value = 0; {$code['set']};");
        $fails['one counter'] = str_replace('$key', "'counter'", $code['increment']) . ' === false';
    }
    return array_map(fn (string $fails) => together($code, $fails, $keys, $workers), $fails);
}

/** Runs a loop in several processes for a time, and returns millions of operations per second. */
function together(array $code, string $fails, array $keys, int $workers): float
{
    $begins = hrtime(true) + 200_000_000;
    $pipes = [];
    for ($worker = 0; $worker < $workers; ++$worker) {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($theirs, json_encode(until(loop($code, $fails), $keys, $begins, isset($code['may_miss']))));
            exit(0);
        }
        fclose($theirs);
        $pipes[] = $ours;
    }
    $rates = array_map(fn ($pipe) => json_decode(stream_get_contents($pipe)), $pipes);
    in_array(null, $rates, true) and fail('a worker ended without a result');
    while (pcntl_wait($status) > 0) {
    }
    return array_sum($rates);
}

/** Runs passes until the time is over. Returns millions of operations per second. */
function until(callable $loop, array $keys, int $begins, bool $may_miss): float
{
    $values = $keys;
    while (hrtime(true) < $begins) {
    }
    $done = 0;
    do {
        [, $failed] = $loop($keys, $values);
        $failed === 0 or $may_miss or fail("$failed operations failed");
        $done += count($keys);
        $took = hrtime(true) - $begins;
    } while ($took < SECONDS_OF_WORKERS * 1e9);
    return $done / $took * 1e3;
}

function fail(string $why): never
{
    fwrite(STDERR, "load.php: $why\n");
    exit(1);
}
