--TEST--
Iterators that are freed at the end of a request, after PCRE's shutdown
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
class Keeper
{
    public static $iterator;
}

apcu_store('a1', 1);
$kept = [new APCUIterator('/^a\d/')];
foreach ($kept[0] as $key => $item) {
    echo "$key\n";
}
Keeper::$iterator = new APCUIterator('/^a/');
Keeper::$iterator->rewind();
var_dump(Keeper::$iterator->key());
?>
--EXPECT--
a1
string(2) "a1"
