--TEST--
larder.serializer: php and igbinary, in a file that processes with both settings share
--SKIPIF--
<?php
if (!is_file(getenv('LARDER_DEBIAN') . '/igbinary.so')) die('skip LARDER_DEBIAN has no igbinary.so');
if (PHP_ZTS) die('skip Debian builds igbinary for a PHP without threads');
?>
--FILE--
<?php
require __DIR__ . '/run.inc';

$file = new_folder() . '/cache';
$ours = getenv('LARDER_SO');
$igbinary = getenv('LARDER_DEBIAN') . '/igbinary.so';
$open = "\$cache = Larder\\Cache::open('$file', ['classes' => '*']); ";
$values = <<<'CODE'
    class Point { public function __construct(public $x = 0, protected $y = [1]) {} public function __wakeup() { if (($GLOBALS['loud'] ?? false)) { echo "code of the class runs\n"; } } }
    $long = str_repeat('text', 100);
    $values = ['object' => new Point(1, ['a' => new Point(), 'b' => 1.5]), 'objects' => array_fill(0, 50, new ArrayObject([1, 2])),
        'list' => [new Point('x'), null, true, -70000, PHP_INT_MIN, '', "\0"]];
    $one = 1;
    $values['reference'] = [&$one, &$one, 'long' => $long, 'again' => [$long, $long], 'd' => 1.5, 'n' => [null, false, true, 300, -300, -5, 1 << 40]];
    CODE;
$store = 'foreach ($values as $name => $value) { $cache->set($name, $value) or print("$name is not stored\n"); $cache->set(str_repeat($name, 100), $value); } ';
$check = 'foreach ($values as $name => $value) { foreach ([$name, str_repeat($name, 100)] as $key) { $found = $cache->get($key); $found == $value or print("$name differs: " . var_export($found, true)); } } ';
foreach ([[$ours, $igbinary], [$igbinary, $ours]] as $extensions) {
    echo "both orders\n";
    echo run(['larder.serializer' => 'igbinary'], "$open$values$store$check", $extensions);
    echo run([], "$open$values$check \$found = \$cache->get('reference'); \$found[0] = 2; var_dump(\$found[1]);", $extensions);
    echo run([], "$open$values$store$check", $extensions);
    echo run(['larder.serializer' => 'igbinary'], "$open$values$check", $extensions);
}
// igbinary wrote this: its form begins with four bytes that contain a version.
echo run([], "$values \$cache = Larder\\Cache::open('$file', ['classes' => '*', 'serializer' => 'igbinary']); $store", [$ours, $igbinary]);
var_dump(str_contains(file_get_contents($file), "\0\0\0\2\x17\x05Point"));
echo "without igbinary\n";
echo run([], "$open$values var_dump(\$cache->get('object', 'missing'));");
echo run(['larder.serializer' => 'igbinary'], "try { $open } catch (Larder\\Exception \$exception) { echo \$exception->getMessage(), \"\\n\"; }
    try { Larder\\Cache::shared(); } catch (Larder\\Exception \$exception) { echo \$exception->getMessage(), \"\\n\"; }
    foreach (['serializer' => 'igbinary', 'other' => 'msgpack', 'none' => 7] as \$name) { try { Larder\\Cache::open(null, ['serializer' => \$name]); } catch (Larder\\Exception \$exception) { echo \$exception->getMessage(), \"\\n\"; } }
    var_dump(Larder\\Cache::open(null, ['serializer' => 'php'])->set('k', 1));");
echo run(['larder.serializer' => 'msgpack', 'larder.enable_cli' => '1'], "try { Larder\\Cache::shared(); } catch (Larder\\Exception \$exception) { echo \$exception->getMessage(), \"\\n\"; }", [$ours, $igbinary]);
echo "classes\n";
// No code of a disallowed class runs, and arrays without objects are read.
$restricted = "\$loud = true; \$cache = Larder\\Cache::open('$file', ['classes' => ['ArrayObject'], 'serializer' => 'igbinary']); ";
echo run([], "$values$restricted var_dump(\$cache->get('object', 'missing'), \$cache->get('objects', 'missing'), \$cache->get('reference') == \$values['reference']);
    \$cache->set('allowed', [new ArrayObject([1]), 1]); var_dump(\$cache->get('allowed')[0]->count());
    \$cache->set('cycle', \$values['reference']); var_dump(\$cache->get('cycle') == \$values['reference']);
    try { \$cache->set('p', new Point()); } catch (Larder\\Exception \$exception) { echo \$exception->getMessage(), \"\\n\"; }", [$ours, $igbinary]);
// Among random values, only values without objects are read.
echo run([], <<<'CODE'
    mt_srand(7);
    function random_value(int $depth, bool &$has_object): mixed {
        $kind = mt_rand(0, $depth > 2 ? 6 : 9);
        if ($kind === 9 && mt_rand(0, 3) === 0) {
            $has_object = true;
            return mt_rand(0, 1) ? new ArrayObject([1]) : (object) ['x' => 1];
        }
        if ($kind > 6) {
            $array = [];
            for ($at = mt_rand(0, mt_rand(0, 30) === 0 ? 300 : 4); $at > 0; --$at) {
                $key = mt_rand(0, 1) ? mt_rand(-70000, 70000) : str_repeat(chr(mt_rand(0, 255)), mt_rand(0, 300));
                $array[$key] = random_value($depth + 1, $has_object);
                if (mt_rand(0, 9) === 0) { $array['ref'] = &$array[$key]; }
            }
            return $array;
        }
        return [null, true, false, mt_rand(-1 << mt_rand(0, 31), 1 << mt_rand(0, 31)) << mt_rand(0, 31), mt_rand() / 7, '', str_repeat(chr(mt_rand(0, 255)), mt_rand(0, mt_rand(0, 40) === 0 ? 70000 : 300))][$kind];
    }
    $file = '/dev/shm/' . getmypid();
    $writer = Larder\Cache::open($file, ['serializer' => 'igbinary', 'classes' => '*', 'memory' => '64M']);
    $reader = Larder\Cache::open($file, ['classes' => []]);
    $counts = [0, 0];
    for ($round = 0; $round < 500; ++$round) {
        $has_object = false;
        $one = random_value(0, $has_object);
        $value = ['a' => $one, 'by' => &$one];
        $writer->set('k', $value);
        $writer->get('k') == $value or print("$round differs\n");
        ($found = @$reader->get('k', 'missing')) == ($has_object ? 'missing' : $value) or print("$round is read wrongly\n");
        ++$counts[(int) $has_object];
    }
    unlink($file);
    var_dump($counts[0] > 200, $counts[1] > 20);
    CODE, [$ours, $igbinary]);
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECTF--
both orders
int(2)
both orders
int(2)
bool(true)
without igbinary
Warning: Larder\Cache::get(): A stored value needs igbinary, which PHP has not loaded, so its key misses in %s on line %d
string(7) "missing"
The serializer igbinary needs the extension igbinary, which PHP has not loaded
The serializer igbinary needs the extension igbinary, which PHP has not loaded
The serializer igbinary needs the extension igbinary, which PHP has not loaded
Unknown serializer msgpack: larder.serializer must be php or igbinary
The option serializer must be 'php' or 'igbinary'
bool(true)
Unknown serializer msgpack: larder.serializer must be php or igbinary
classes
Warning: Larder\Cache::get(): A stored object was written by igbinary, which cannot restrict the classes to larder.unserialize_classes, so its key misses in %s on line %d
string(7) "missing"
string(7) "missing"
bool(true)
int(1)
bool(true)
Objects of the class Point are not allowed: see larder.unserialize_classes
bool(true)
bool(true)
