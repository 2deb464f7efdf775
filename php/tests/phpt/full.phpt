--TEST--
A full cache evicts items, and does not start over empty
--INI--
apc.enabled=1
apc.enable_cli=1
apc.shm_size=16M
--FILE--
<?php
$started = apcu_cache_info(true)['start_time'];
$value = str_repeat('v', 2000);
for ($at = 0; $at < 20000; ++$at) {
    apcu_store("key$at", $value) or print("key$at is not stored\n");
    apcu_fetch('popular') or apcu_store('popular', 1);
}
// The cache evicts some items for each store: it is never empty.
$info = apcu_cache_info(true);
var_dump($info['num_entries'] > 2000, $info['num_entries'] < 8000, $info['expunges'], $info['start_time'] === $started);
$last = 0;
for ($at = 19000; $at < 20000; ++$at) {
    $last += (int) apcu_exists("key$at");
}
var_dump($last > 900, apcu_exists('popular'));
$sma = apcu_sma_info(true);
var_dump($sma['avail_mem'] >= 0 && $sma['avail_mem'] <= $sma['seg_size']);

// An item of more than half of the memory does not fit, and evicts nothing.
var_dump(apcu_store('huge', str_repeat('h', 9 << 20)), apcu_exists('huge'), apcu_cache_info(true)['num_entries'] > 2000);
var_dump(apcu_store(['large' => str_repeat('l', 2 << 20), 'huge' => str_repeat('h', 9 << 20)]));
// Keys that APCu has since 5.1.25.
var_dump($info['cleanups'], $info['defragmentations']);
var_dump(apcu_clear_cache(), apcu_cache_info()['cache_list'], apcu_exists('popular'));
?>
--EXPECTF--
bool(true)
bool(true)
float(0)
bool(true)
bool(true)
bool(true)
bool(true)
bool(false)
bool(false)
bool(true)
array(1) {
  ["huge"]=>
  int(-1)
}
int(0)
int(0)
bool(true)
array(0) {
}
bool(false)
