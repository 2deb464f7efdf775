--TEST--
A client of a server and php-memcached read each other's values
--SKIPIF--
<?php
if (!getenv('LARDERD')) die('skip LARDERD names no larderd');
if (PHP_ZTS) die('skip Debian builds php-memcached for a PHP without threads');
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
        'words' => words(3000), 'many-words' => words(200_000), 'far' => random_text() . str_repeat('x', 9000) . random_text(), 'packed-list' => str_split(words(4000), 100),
        'cycle' => (function () { $one = [1]; $two = [&$one, &$one]; return $two; })()];
    // Does not compress.
    function random_text(): string { mt_srand(1); $text = ''; for ($at = 0; $at < 4000; ++$at) { $text .= chr(mt_rand(0, 255)); } return $text; }
    function words(int $bytes): string { mt_srand(2); $text = ''; while (strlen($text) < $bytes) { $text .= mt_rand(0, 99) . ' words, ' . str_repeat(chr(mt_rand(97, 122)), mt_rand(0, 300)); } return $text; }
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
    var_dump($cache->get("packed", "missing") === str_repeat("x", 5000), $cache->increment("n", 2), $cache->cas("m-list", $values["list"], "swapped"),
        $cache->cas("packed", str_repeat("x", 4999), "y"), $cache->cas("packed", str_repeat("x", 5000), "y"));
    foreach ($values as $name => $value) { $cache->set("l-$name", $value) or print("$name is not stored\n"); }
    $cache->getOrCompute("page", fn () => [1], 100, 100); $cache->set("n2", 10); $cache->decrement("n2");');
echo $of_memcached('check(fn ($name) => $cache->get("l-$name"), $values); var_dump($cache->get("n"), $cache->get("m-list"), $cache->get("page"), $cache->get("n2"), $cache->get("l-null"), $cache->getResultCode());');
// Debian's php-memcached serializes with igbinary by default.
echo $of_memcached('$cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_IGBINARY); $cache->set("i", $values["map"]);');
echo run([], "$shared \$cache = Larder\\Client::connect('$socket', ['serializer' => 'igbinary']); var_dump(\$cache->get('i') === \$values['map']); \$cache->set('i2', \$values['map']);",
    ["$debian/igbinary.so", getenv('LARDER_SO')]);
echo $of_memcached('var_dump($cache->get("i2") === $values["map"]);');
// Damaged values miss, or have other bytes. Other kinds of compression miss.
echo run([], <<<CODE
    \$cache = Larder\\Client::connect('$socket', ['classes' => []]);
    \$other = stream_socket_client('unix://$socket');
    fwrite(\$other, "mg m-words v f\\r\\n");
    [, \$bytes, \$flags] = explode(' ', trim(fgets(\$other)));
    \$packed = stream_get_contents(\$other, (int) \$bytes);
    fgets(\$other);
    \$store = function (string \$value, int \$flags) use (\$other, \$cache) {
        fwrite(\$other, 'ms d ' . strlen(\$value) . " F\$flags\\r\\n\$value\\r\\n");
        fgets(\$other);
        return \$cache->get('d', 'missing');
    };
    var_dump(\$flags, \$store(\$packed, 0x50) === \$cache->get('m-words'), \$store(\$packed, 0x30), \$store('', 0x50), \$store("\\xff\\xff\\xff\\xff", 0x50), \$store("\\0\\0\\0\\0", 0x50));
    mt_srand(3);
    for (\$round = 0; \$round < 2000; ++\$round) {
        \$damaged = substr(\$packed, 0, mt_rand(0, 3) ? null : mt_rand(0, strlen(\$packed)));
        for (\$count = mt_rand(1, 4); \$count > 0 && \$damaged !== ''; --\$count) {
            \$damaged[mt_rand(mt_rand(0, 9) ? min(4, strlen(\$damaged) - 1) : 0, strlen(\$damaged) - 1)] = chr(mt_rand(0, 255));
        }
        is_string(\$store(\$damaged, 0x50)) or print("not a string\\n");
    }
    CODE);
proc_terminate($server, 9);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
bool(true)
int(7)
bool(true)
bool(false)
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
string(3) "f80"
bool(true)
string(7) "missing"
string(7) "missing"
string(7) "missing"
string(7) "missing"
