--TEST--
The memory of removed items is available
--INI--
apc.enabled=1
apc.enable_cli=1
apc.shm_size=64M
--FILE--
<?php
function usage(): int
{
    $memory = apcu_sma_info(true);
    $all = $memory['num_seg'] * $memory['seg_size'];
    return (int) round(($all - $memory['avail_mem']) / $all * 100);
}

function fill(): void
{
    for ($at = 0; $at < 10000; ++$at) {
        apcu_store("k$at", str_repeat('x', 1000));
    }
}

echo 'empty: ', usage() <= 2 ? 'ok' : usage(), "\n";
fill();
echo 'ten megabytes: ', usage() >= 15 && usage() <= 20 ? 'ok' : usage(), "\n";
for ($at = 0; $at < 10000; ++$at) {
    apcu_delete("k$at");
}
echo 'all deleted: ', usage() <= 2 ? 'ok' : usage(), "\n";
for ($round = 0; $round < 20; ++$round) {
    fill();
}
echo 'stored again and again: ', usage() <= 20 ? 'ok' : usage(), "\n";
apcu_clear_cache();
echo 'cleared: ', usage() <= 2 ? 'ok' : usage(), "\n";
$block = apcu_sma_info()['block_lists'][0][0];
var_dump($block['size'] + $block['offset'] === (int) apcu_sma_info(true)['seg_size']);
?>
--EXPECT--
empty: ok
ten megabytes: ok
all deleted: ok
stored again and again: ok
cleared: ok
bool(true)
