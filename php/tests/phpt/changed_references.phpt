--TEST--
Code that runs during a call changes its arguments through references
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
class Changer
{
    public function __serialize(): array
    {
        global $array;
        $array = 5;
        return ['x' => str_repeat('q', 40)];
    }

    public function __unserialize(array $data): void
    {
        global $name, $to;
        $name = $to;
    }
}

// The names of a fetch.
apcu_store('changer', new Changer());
apcu_store('plain', 5);
foreach ([7, null, 'other', [1], 1.5] as $to) {
    $name = str_replace('_', '', 'chan_ger');
    echo json_encode(array_keys(apcu_fetch([&$name, 'plain']))), "\n";
}

// The values of a store.
$array = [str_repeat('a', 30), new Changer(), [str_repeat('c', 50)], str_repeat('d', 60)];
var_dump(apcu_store(['k' => &$array, 'l' => 1]), $array);
echo json_encode(array_map(fn($value) => get_debug_type($value), apcu_fetch('k'))), "\n";

// Names of other types, which warn, and a handler of warnings that changes the next one.
set_error_handler(function (int $level, string $message) {
    global $next;
    $next = ['none'];
    echo "$message\n";
    return true;
});
foreach (['apcu_exists', 'apcu_delete', 'apcu_fetch'] as $function) {
    $next = str_repeat('p', 3);
    apcu_store('ppp', 1);
    echo json_encode($function([[0], &$next])), "\n";
}
?>
--EXPECT--
["changer","plain"]
["changer","plain"]
["changer","plain"]
["changer","plain"]
["changer","plain"]
array(0) {
}
int(5)
["string","Changer","array","string"]
apcu_exists(): apc_exists() expects a string or array of strings.
{"ppp":true}
apcu_delete(): apc_delete() expects a string, array of strings, or APCIterator instance
[[0]]
apcu_fetch(): apc_fetch() expects a string or array of strings.
{"ppp":1}
