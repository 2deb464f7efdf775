<?php
// Reads, writes, deletes and counts at random for `ms` milliseconds, and checks every value. Prints
// the number of operations, the longest one in microseconds (without the time in which this worker
// waited for a processor), and the number of wrong values, as JSON.
$ends = hrtime(true) + 1_000_000 * (int) $_GET['ms'];
$long = str_repeat('0123456789abcdef', 256);
[$done, $longest, $wrong] = [0, 0, 0];
$schedule = fopen('/proc/self/schedstat', 'r');
$waited = function () use ($schedule): int {
    rewind($schedule);
    return (int) explode(' ', fread($schedule, 64))[1];
};
while (($begun = hrtime(true)) < $ends) {
    $key = 'storm' . mt_rand(0, 999);
    $before = $waited();
    $begun = hrtime(true);
    switch (mt_rand(0, 9)) {
        case 0:
        case 1:
            apcu_store($key, "$key:" . substr($long, 0, mt_rand(0, 4096)));
            break;
        case 2:
            apcu_delete($key);
            break;
        case 3:
            apcu_inc('counter' . mt_rand(0, 3));
            break;
        default:
            $value = apcu_fetch($key);
            if ($value !== false && !str_starts_with($value, "$key:")) {
                ++$wrong;
            }
    }
    $took = hrtime(true) - $begun;
    if ($took > $longest * 1000) {
        $longest = max($longest, intdiv(max(0, $took - ($waited() - $before)), 1000));
    }
    ++$done;
}
echo json_encode(['done' => $done, 'longest_us' => $longest, 'wrong' => $wrong]);
