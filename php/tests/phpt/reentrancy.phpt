--TEST--
Code that runs in a call uses the cache
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
class Nested
{
    public array $seen = [];

    public function __serialize(): array
    {
        apcu_store('inner', ['stored' => 'while serializing']);
        return [apcu_fetch('inner')];
    }

    public function __unserialize(array $data): void
    {
        $this->seen = [$data[0], apcu_fetch('inner'), apcu_fetch(['inner', 'plain'])];
        apcu_store('during', new ArrayObject([str_repeat('d', 9000)]));
        apcu_delete('outer');
        foreach (new APCUIterator('/^plain/') as $key => $item) {
            $this->seen[] = $item['value'];
        }
    }
}

spl_autoload_register(function (string $class): void {
    apcu_store('autoloaded', $class);
    echo "autoload $class: ", apcu_fetch('plain'), "\n";
    eval("class $class { public \$value; }");
});

apcu_store('plain', 'plain value');
apcu_store('outer', [new Nested(), new Nested()]);
$fetched = apcu_fetch('outer');
var_dump(count($fetched), $fetched[1]->seen === $fetched[0]->seen, $fetched[0]->seen[3]);
var_dump(strlen(apcu_fetch('during')[0]), apcu_exists('outer'));

apcu_store('late', unserialize('O:4:"Late":1:{s:5:"value";i:5;}'));
var_dump(apcu_fetch('late')->value, apcu_fetch('autoloaded'));

// Calls of the cache in an iteration over it.
foreach (new APCUIterator(null, APC_ITER_ALL, 1) as $key => $item) {
    apcu_delete($key);
    foreach (new APCUIterator('/a/') as $inner) {
        apcu_fetch($inner['key']);
    }
}
var_dump(iterator_count(new APCUIterator()));
?>
--EXPECTF--
int(2)
bool(true)
string(11) "plain value"
int(9000)
bool(false)
autoload Late: plain value
int(5)
string(4) "Late"
int(0)
