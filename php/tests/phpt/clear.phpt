--TEST--
A cleared cache has no items and no bytes
--INI--
apc.enabled=1
apc.enable_cli=1
apc.shm_size=64M
--FILE--
<?php
for ($at = 0; $at < 200000; ++$at) {
    apcu_store("key$at", 'value');
}
$before = apcu_cache_info(true);
var_dump($before['num_entries'], $before['mem_size'] > 200000);
apcu_clear_cache();
$after = apcu_cache_info(true);
var_dump($after['num_entries'], $after['mem_size'], $after['num_hits'], $after['num_inserts']);
var_dump(apcu_fetch('key7'), apcu_store('key7', 'again'), apcu_cache_info(true)['num_entries']);
?>
--EXPECT--
int(200000)
bool(true)
int(0)
float(0)
float(0)
float(0)
bool(false)
bool(true)
int(1)
