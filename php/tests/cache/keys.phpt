--TEST--
Keys may have any bytes and any length except zero
--FILE--
<?php
$cache = Larder\Cache::open();
$long = str_repeat('k', 216);
$keys = ['a', '0', '7', '-1', "with\0nul", "\xFF", "\xFFmark", $long, "{$long}1", "{$long}12", str_repeat('x', 250),
    str_repeat('x', 251), str_repeat('y', 65536), 'ünïcode', 'a.b:c/d#e', ' '];
foreach ($keys as $at => $key) {
    $cache->set($key, $at) or print("$at is not stored\n");
}
foreach ($keys as $at => $key) {
    $cache->get($key) === $at or print("$at differs\n");
    $cache->has($key) or print("$at is not there\n");
    $cache->increment($key) === $at + 1 or print("$at does not count\n");
    $cache->cas($key, $at + 1, "text $at") or print("$at is not exchanged\n");
    $cache->touch($key, 100) or print("$at is not touched\n");
}
$found = $cache->keys();
sort($keys);
sort($found);
var_dump($found === $keys, count($cache->keys("{$long}1")), $cache->keys("\xFF") == ["\xFF", "\xFFmark"] || $cache->keys("\xFF") == ["\xFFmark", "\xFF"]);
$items = iterator_to_array($cache->iterate($long));
ksort($items);
var_dump(array_map('strlen', array_keys($items)), array_values($items));
var_dump($cache->getMany(['7', 'a', 'missing', str_repeat('x', 251)]) === ['7' => 'text 2', 'a' => 'text 0', str_repeat('x', 251) => 'text 11']);
var_dump($cache->deletePrefix("{$long}12"), $cache->deletePrefix($long), $cache->deletePrefix("\xFF"), $cache->deletePrefix(str_repeat('x', 251)),
    $cache->deletePrefix(str_repeat('y', 218)), $cache->has(str_repeat('x', 250)));
foreach (['get', 'has', 'delete', 'touch', 'increment'] as $method) {
    try {
        $cache->$method('');
    } catch (Larder\Exception $exception) {
        echo "$method: ", $exception->getMessage(), "\n";
    }
}
var_dump($cache->deletePrefix(''), count($cache));
?>
--EXPECT--
bool(true)
int(2)
bool(true)
array(3) {
  [0]=>
  int(216)
  [1]=>
  int(217)
  [2]=>
  int(218)
}
array(3) {
  [0]=>
  string(6) "text 7"
  [1]=>
  string(6) "text 8"
  [2]=>
  string(6) "text 9"
}
bool(true)
int(1)
int(2)
int(2)
int(1)
int(1)
bool(true)
get: A key must have at least one byte
has: A key must have at least one byte
delete: A key must have at least one byte
touch: A key must have at least one byte
increment: A key must have at least one byte
int(9)
int(0)
