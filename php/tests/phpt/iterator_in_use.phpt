--TEST--
Code that runs while an iterator reads a value does not move it
--INI--
apc.enabled=1
apc.enable_cli=1
--FILE--
<?php
class Mover
{
    public function __serialize(): array { return ['m']; }

    public function __unserialize(array $data): void
    {
        global $iterator, $move;
        $move($iterator);
    }
}

class Ender
{
    public function __serialize(): array { return ['e']; }
    public function __unserialize(array $data): void {}

    public function __destruct()
    {
        global $iterator;
        $iterator?->rewind();
    }
}

for ($at = 0; $at < 300; ++$at) {
    apcu_store("mover$at", new Mover());
}
$moves = [
    'construct' => fn($it) => $it->__construct('/^b/'),
    'rewind' => fn($it) => $it->rewind(),
    'next' => fn($it) => $it->next(),
    'valid' => fn($it) => $it->valid(),
    'current' => fn($it) => $it->current(),
    'key' => fn($it) => $it->key(),
    'total' => fn($it) => $it->getTotalCount(),
    'delete' => fn($it) => apcu_delete($it),
];
foreach ($moves as $name => $move) {
    $iterator = new APCUIterator('/^mover/', APC_ITER_ALL, 50);
    try {
        foreach ($iterator as $item) {
            break;
        }
        echo "$name: no error\n";
    } catch (Error $error) {
        echo "$name: ", $error->getMessage(), "\n";
    }
}

// An iterator that the code drops is not freed while it is in use.
$move = function () { $GLOBALS['iterator'] = null; };
$iterator = new APCUIterator('/^mover/', APC_ITER_ALL, 50);
$count = 0;
foreach ($iterator as $item) {
    ++$count;
}
echo "forgotten: $count\n";

// The destructors of a chunk run when the next chunk is read.
apcu_clear_cache();
$iterator = null;
for ($at = 0; $at < 20; ++$at) {
    apcu_store("ender$at", new Ender());
}
$iterator = new APCUIterator('/^ender/', APC_ITER_ALL, 5);
try {
    foreach ($iterator as $item) {
        unset($item);
    }
    echo "destructors: no error\n";
} catch (Error $error) {
    echo 'destructors: ', $error->getMessage(), "\n";
}
$iterator = new APCUIterator('/^none/');
?>
--EXPECT--
construct: Cannot use an APCUIterator while it reads a value
rewind: Cannot use an APCUIterator while it reads a value
next: Cannot use an APCUIterator while it reads a value
valid: Cannot use an APCUIterator while it reads a value
current: Cannot use an APCUIterator while it reads a value
key: Cannot use an APCUIterator while it reads a value
total: Cannot use an APCUIterator while it reads a value
delete: Cannot use an APCUIterator while it reads a value
forgotten: 300
destructors: Cannot use an APCUIterator while it reads a value
