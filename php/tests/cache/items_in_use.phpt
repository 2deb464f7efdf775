--TEST--
Code that runs while an iterator reads a value does not move it
--FILE--
<?php
class Mover
{
    public function __serialize(): array { return ['m']; }

    public function __unserialize(array $data): void
    {
        global $items, $move;
        $move($items);
    }
}

$cache = Larder\Cache::open();
for ($at = 0; $at < 100; ++$at) {
    $cache->set("item$at", [str_repeat('z', 50), new Mover(), str_repeat('y', 60)]);
}
$moves = [
    'rewind' => fn($items) => $items->rewind(),
    'next' => fn($items) => $items->next(),
    'valid' => fn($items) => $items->valid(),
    'current' => fn($items) => $items->current(),
    'key' => fn($items) => $items->key(),
];
foreach ($moves as $name => $move) {
    $items = $cache->iterate();
    try {
        foreach ($items as $value) {
            break;
        }
        echo "$name: no exception\n";
    } catch (Larder\Exception $exception) {
        echo "$name: ", $exception->getMessage(), "\n";
    }
}
$move = function () { $GLOBALS['items'] = null; };
$items = $cache->iterate();
$count = 0;
foreach ($items as $value) {
    $count += count($value) === 3 ? 1 : 0;
}
echo "forgotten: $count\n";

// References among names and values.
class Changer
{
    public function __serialize(): array { $GLOBALS['array'] = 5; return []; }
    public function __unserialize(array $data): void { $GLOBALS['name'] = ['other']; }
}

$array = [str_repeat('a', 30), new Changer(), str_repeat('b', 30)];
var_dump($cache->setMany(['k' => &$array]), count($cache->get('k')));
$cache->set('changer', new Changer());
$name = str_replace('_', '', 'chan_ger');
var_dump(array_keys($cache->getMany([&$name, 'k'])));
function values() { for (;;) { $value = [str_repeat('a', 30), new Changer()]; yield 'g' => $value; return; } }
var_dump($cache->setMany(values()));
?>
--EXPECT--
rewind: Cannot use the iterator while it reads a value
next: Cannot use the iterator while it reads a value
valid: Cannot use the iterator while it reads a value
current: Cannot use the iterator while it reads a value
key: Cannot use the iterator while it reads a value
forgotten: 100
bool(true)
int(3)
array(2) {
  [0]=>
  string(7) "changer"
  [1]=>
  string(1) "k"
}
bool(true)
