--TEST--
References and cycles
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
$shared = ['deep'];
$array = ['a' => &$shared, 'b' => &$shared];
apcu_store('shared', $array);
$fetched = apcu_fetch('shared');
$fetched['a'][] = 'changed';
var_dump($fetched['b'], $shared);

$recursive = ['name' => 'top'];
$recursive['self'] = &$recursive;
var_dump(apcu_store('recursive', $recursive));
$fetched = apcu_fetch('recursive');
var_dump($fetched['self']['self']['name']);

$object = new stdClass();
$object->self = $object;
apcu_store('object', ['x' => $object, 'y' => $object]);
$fetched = apcu_fetch('object');
var_dump($fetched['x'] === $fetched['y'], $fetched['x']->self === $fetched['x']);

// A tree in which each array contains the next one twice would take 2^n bytes, and is refused.
$tree = ['leaf'];
for ($level = 0; $level < 40; ++$level) {
    $tree = [$tree, $tree];
}
ini_set('memory_limit', '128M');
var_dump(apcu_store('tree', $tree), apcu_exists('tree'));

// PHP does not free cycles at its end, and valgrind would report them.
unset($recursive, $object, $fetched);
gc_collect_cycles();
?>
--EXPECTF--
array(2) {
  [0]=>
  string(4) "deep"
  [1]=>
  string(7) "changed"
}
array(1) {
  [0]=>
  string(4) "deep"
}
bool(true)
string(3) "top"
bool(true)
bool(true)
bool(false)
bool(false)
