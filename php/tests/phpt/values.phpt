--TEST--
Values come back with their types and order
--INI--
apc.enabled=1
apc.enable_cli=1
serialize_precision=17
--FILE--
<?php
function nested(int $depth): array
{
    $value = ['leaf'];
    while (--$depth > 0) {
        $value = ['down' => $value];
    }
    return $value;
}

$holes = [0, 1, 2, 3];
unset($holes[1]);
$values = [
    null, true, false, 0, -1, 47, 48, 63, 64, PHP_INT_MAX, PHP_INT_MIN, 0.0, -0.0, 0.1 + 0.2, 5e-324, 1e308, INF,
    -INF, '', 'a', "\0", str_repeat('s', 4096), str_repeat('s', 4097), str_repeat('s', 100000), [], [[]], [1, 2, 3],
    $holes, [-5 => 1, 'k' => null, '' => true], [str_repeat('x', 191), str_repeat('x', 192), str_repeat('x', 5000)],
    range(0, 5000), [1.5, [PHP_INT_MIN, [PHP_INT_MAX]]], nested(199), nested(201), nested(1000), ["1" => 'a', "01" => 'b'],
    [str_repeat('k', 300) => 1],
];
foreach ($values as $at => $value) {
    apcu_store('v', $value) or print("$at is not stored\n");
    $fetched = apcu_fetch('v', $success);
    if (!$success || serialize($fetched) !== serialize($value) || $fetched !== $value) {
        echo "$at differs\n";
    }
}
apcu_store('nan', NAN);
var_dump(is_nan(apcu_fetch('nan')));

// A fetched array is private to the caller.
apcu_store('v', ['a' => [1]]);
$one = apcu_fetch('v');
$two = apcu_fetch('v');
$one['a'][] = 2;
$one[] = 3;
var_dump($two, array_key_last($one));
debug_zval_refcount: debug_zval_dump(apcu_fetch('v'));

// The next free index follows from the values.
$list = [1, 2, 3];
unset($list[2]);
apcu_store('v', $list);
$list = apcu_fetch('v');
$list[] = 'next';
echo json_encode($list), "\n";
?>
--EXPECTF--
bool(true)
array(1) {
  ["a"]=>
  array(1) {
    [0]=>
    int(1)
  }
}
int(0)
array(1) refcount(%d){
  ["a"]=>
  array(1) %r(packed )?%rrefcount(1){
    [0]=>
    int(1)
  }
}
[1,2,"next"]
