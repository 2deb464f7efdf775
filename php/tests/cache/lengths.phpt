--TEST--
Values of any length after values of any other length come back whole
--FILE--
<?php
$cache = Larder\Cache::open();
$values = [
    'empty' => '', 'byte' => 'b', 'short' => str_repeat('s', 100), 'true' => true, 'int' => 7,
    'room' => str_repeat('r', 4096), 'room+1' => str_repeat('R', 4097),
    'long' => str_repeat('l', 8192), 'longer' => str_repeat('L', 20_000),
    'foretold' => str_repeat('f', 65_536), 'huge' => str_repeat('h', 700_000),
    'tree' => ['a' => str_repeat('t', 9000), 'b' => [1, 2, null]], 'list' => range(1, 3000),
];
foreach ($values as $name => $value) {
    $cache->set($name, $value) or print("$name is not stored\n");
}
$names = array_keys($values);
$read = function (string $name, string $before) use ($cache, $values) {
    $cache->get($name) === $values[$name] or print("$name after $before is wrong\n");
};
// A length is predicted from the two previous values.
foreach ($names as $first) {
    foreach ($names as $second) {
        foreach ($names as $third) {
            $read($first, '');
            $read($second, $first);
            $read($third, "$first and $second");
        }
        $cache->get('missing') === null or print("a missing entry is found after $second\n");
        $read($second, 'a miss');
    }
}
// Changing a value after the read does not change the cache.
$text = $cache->get('long');
$text = $cache->get('long');
$text = $cache->get('room+1');
$text[4096] = '!';
$text .= 'more';
var_dump(strlen($text));
$read('room+1', 'a change');
echo "done\n";
?>
--EXPECT--
int(4101)
done
