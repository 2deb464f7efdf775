--TEST--
A value that does not fit is not stored, with one warning; others make room for new ones
--FILE--
<?php
$cache = Larder\Cache::open(null, ['memory' => '1M', 'itemLimit' => 100000]);
$cache->set('a', 'old');
var_dump($cache->set('a', str_repeat('x', 200000)), $cache->get('a'), $cache->add('b', str_repeat('x', 200000)));
for ($at = 0; $at < 1000; ++$at) {
    $cache->set("key$at", str_repeat('x', 10000)) or print("$at is not stored\n");
}
var_dump($cache->get('key999') !== null, $cache->get('key0'));
?>
--EXPECTF--

Warning: Larder\Cache::set(): The cache failed: %s in %s on line %d
bool(false)
NULL
bool(false)
bool(true)
NULL
