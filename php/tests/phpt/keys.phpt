--TEST--
Keys of any length and with any bytes
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
$keys = ['', 'k', "a\0b", "\xFF", "\xFF and more", str_repeat('x', 217), str_repeat('x', 218),
    str_repeat('x', 250), str_repeat('x', 251), str_repeat('y', 65536)];
foreach ($keys as $at => $key) {
    $works = [
        apcu_exists($key) === false,
        apcu_store($key, "value $at") === true,
        apcu_fetch($key) === "value $at",
        apcu_add($key, 'other') === false,
        apcu_key_info($key)['refs'] === 0,
    ];
    echo $at, ' ', json_encode($works), "\n";
}
foreach ($keys as $at => $key) {
    echo apcu_fetch($key) === "value $at" ? '' : "$at is mixed up with another key\n";
}
$found = array_keys(iterator_to_array(new APCUIterator(null, APC_ITER_VALUE)));
sort($found);
sort($keys);
var_dump($found === $keys);
var_dump((new APCUIterator('/^x{217}x/'))->getTotalCount());
var_dump((new APCUIterator('/^' . str_repeat('x', 250) . '/'))->getTotalCount());
var_dump((new APCUIterator("/^\xFF/"))->getTotalCount());
var_dump(count(apcu_cache_info()['cache_list']));
var_dump(apcu_fetch([str_repeat('x', 251), '', 'missing']) === [str_repeat('x', 251) => 'value 8', '' => 'value 0']);
var_dump(apcu_delete($keys), iterator_count(new APCUIterator()));

// Counters under long keys.
$key = str_repeat('c', 300);
var_dump(apcu_inc($key, 5), apcu_dec($key, 7), apcu_cas($key, -2, 10), apcu_cas($key, -2, 11), apcu_fetch($key));
apcu_store($key, 'text');
var_dump(apcu_inc($key, 1, $success), $success, apcu_cas("{$key}2", 0, 1), apcu_exists("{$key}2"));
apcu_store($key, PHP_INT_MAX);
var_dump(apcu_inc($key) === PHP_INT_MIN);
?>
--EXPECTF--
0 [true,true,true,true,true]
1 [true,true,true,true,true]
2 [true,true,true,true,true]
3 [true,true,true,true,true]
4 [true,true,true,true,true]
5 [true,true,true,true,true]
6 [true,true,true,true,true]
7 [true,true,true,true,true]
8 [true,true,true,true,true]
9 [true,true,true,true,true]
bool(true)
int(3)
int(2)
int(2)
int(10)
bool(true)
array(0) {
}
int(0)
int(5)
int(-2)
bool(true)
bool(false)
int(10)
bool(false)
bool(false)
bool(false)
bool(false)
bool(true)
