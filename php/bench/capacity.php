<?php
// Counts the items with values of SIZE bytes that fit into `apc.shm_size`, with the functions of
// the loaded module `apcu`:
// `php -n -d extension=FILE -d apc.enable_cli=1 -d apc.shm_size=32M capacity.php SIZE`.
//
// It stores more items than fit, with different keys, and counts after each hundredth of them how
// many can be read: the most is what fits. APCu removes all items when it is full.

$memory = ini_parse_quantity(ini_get('apc.shm_size'));
echo most((int) $argv[1], $memory), "\n";

/** Returns the largest number of items of a size that could be read at one time. */
function most(int $size, int $memory): int
{
    $count = intdiv(3 * $memory, 2 * ($size + 60));
    $most = $known = 0;
    for ($at = 0; $at < $count; ++$at) {
        apcu_store("item:$at", str_pad("value $at ", $size, '.'));
        if ($at % intdiv($count, 100) === 0) {
            $entries = apcu_cache_info(true)['num_entries'];
            // Reading every key takes a long time, so this happens only if there are more items
            // than before.
            $most = max($most, $known < $entries ? readable($at) : 0);
            $known = max($known, $entries);
        }
    }
    return $most;
}

function readable(int $last): int
{
    $found = 0;
    for ($at = 0; $at <= $last; ++$at) {
        $found += apcu_exists("item:$at") ? 1 : 0;
    }
    return $found;
}
