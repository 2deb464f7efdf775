--TEST--
A client of a server and php-memcached read the values of each other
--SKIPIF--
<?php
if (!getenv('LARDERD')) die('skip LARDERD names no larderd');
if (!is_file(getenv('LARDER_DEBIAN') . '/memcached.so')) die('skip LARDER_DEBIAN has no memcached.so');
?>
--FILE--
<?php
require __DIR__ . '/run.inc';

$socket = new_folder() . '/socket';
$server = serve($socket);
$debian = getenv('LARDER_DEBIAN');
$shared = <<<'CODE'
    $values = ['null' => null, 'true' => true, 'false' => false, 'zero' => 0, 'minus' => -1, 'max' => PHP_INT_MAX, 'min' => PHP_INT_MIN,
        'float' => 1.5, 'third' => 1 / 3, 'infinite' => -INF, 'empty' => '', 'text' => 'text', 'digits' => '5', 'long' => random_text(),
        'list' => [1, 'two', [3.0, null, false]], 'map' => ['a' => ['b' => null]], 'none' => [],
        'cycle' => (function () { $one = [1]; $two = [&$one, &$one]; return $two; })()];
    // Does not compress.
    function random_text(): string { mt_srand(1); $text = ''; for ($at = 0; $at < 4000; ++$at) { $text .= chr(mt_rand(0, 255)); } return $text; }
    function check(callable $get, array $values): void {
        foreach ($values as $name => $value) {
            $found = $get($name);
            $is_same = $found === $value || ($name === 'cycle' && $found == $value);
            $is_same or print("$name: " . var_export($found, true) . "\n");
        }
    }
    CODE;
$of_memcached = fn (string $code) => shell_exec(implode(' ', array_map('escapeshellarg',
    [PHP_BINARY, '-n', '-d', "extension=$debian/igbinary.so", '-d', "extension=$debian/msgpack.so", '-d', "extension=$debian/memcached.so",
    '-r', "$shared \$cache = new Memcached(); \$cache->addServer('$socket', 0); \$cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_PHP); $code"])) . ' 2>&1');
$of_larder = fn (string $code) => run([], "$shared \$cache = Larder\\Client::connect('$socket'); $code");

echo $of_memcached('foreach ($values as $name => $value) { $cache->set("m-$name", $value) or print("$name is not stored\n"); } $cache->set("n", 5); $cache->setOption(Memcached::OPT_COMPRESSION, true); $cache->set("packed", str_repeat("x", 5000));');
echo $of_larder('check(fn ($name) => $cache->get("m-$name", "missing"), $values); check(fn ($name) => $cache->getMany(["m-$name"])["m-$name"] ?? ($name === "null" ? null : "missing"), $values);
    var_dump($cache->get("packed", "missing"), $cache->increment("n", 2), $cache->cas("m-list", $values["list"], "swapped"));
    foreach ($values as $name => $value) { $cache->set("l-$name", $value) or print("$name is not stored\n"); }
    $cache->getOrCompute("page", fn () => [1], 100, 100); $cache->set("n2", 10); $cache->decrement("n2");');
echo $of_memcached('check(fn ($name) => $cache->get("l-$name"), $values); var_dump($cache->get("n"), $cache->get("m-list"), $cache->get("page"), $cache->get("n2"), $cache->get("l-null"), $cache->getResultCode());');
// Debian's php-memcached serializes by igbinary, unless it is set otherwise.
echo $of_memcached('$cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_IGBINARY); $cache->set("i", $values["map"]);');
echo run([], "$shared \$cache = Larder\\Client::connect('$socket', ['serializer' => 'igbinary']); var_dump(\$cache->get('i') === \$values['map']); \$cache->set('i2', \$values['map']);",
    ["$debian/igbinary.so", getenv('LARDER_SO')]);
echo $of_memcached('var_dump($cache->get("i2") === $values["map"]);');
proc_terminate($server, 9);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
string(7) "missing"
int(7)
bool(true)
int(7)
string(7) "swapped"
array(1) {
  [0]=>
  int(1)
}
int(9)
NULL
int(0)
bool(true)
bool(true)
