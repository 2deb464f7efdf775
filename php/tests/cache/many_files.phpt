--TEST--
A process that opens more files than it can keep open closes files that it does not use
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
$caches = [];
for ($at = 0; $at < 300; ++$at) {
    $caches[$at] = Larder\Cache::open("$folder/$at", ['memory' => '1M']);
    $stored = $caches[$at]->set('key', $at);
    // A file that is in use all the time.
    if (!$stored || $caches[0]->get('key') !== 0) {
        exit("file $at cannot be used\n");
    }
}
// Closed files are opened again.
$wrong = array_filter($caches, fn ($cache, $at) => $cache->get('key') !== $at, ARRAY_FILTER_USE_BOTH);
var_dump(count($wrong));
$maps = file_get_contents('/proc/self/maps');
var_dump(preg_match_all("#$folder/\d+$#m", $maps) <= 64);

// An iterator keeps its file, and so does a computation.
$caches[1]->set('other', 'value');
$found = [];
foreach ($caches[1]->iterate() as $name => $value) {
    $found[] = $name;
    foreach ($caches as $cache) {
        $cache->get('key');
    }
}
sort($found);
echo implode(' ', $found), "\n";
var_dump($caches[2]->getOrCompute('computed', function () use ($caches) {
    array_map(fn ($cache) => $cache->get('key'), $caches);
    return 'computed';
}));
var_dump($caches[2]->get('computed'));

/** An object that uses all other files while it is decoded. */
class Decoded
{
    public function __wakeup(): void
    {
        array_map(fn ($cache) => $cache->get('key'), $GLOBALS['caches']);
    }
}
$mine = Larder\Cache::open("$folder/3", ['classes' => [Decoded::class]]);
$mine->set('object', new Decoded());
var_dump($mine->get('object'), count($mine->getMany(['object', 'key'])));
?>
--EXPECTF--
int(0)
bool(true)
key other
string(8) "computed"
string(8) "computed"
object(Decoded)#%d (0) {
}
int(2)
--CLEAN--
<?php
require __DIR__ . '/run.inc';
remove_folders();
