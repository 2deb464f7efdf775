--TEST--
No code of a class runs for an object in a file
--FILE--
<?php
require __DIR__ . '/run.inc';
$folder = new_folder();
$gadget = 'class Gadget { public $x = 1; function __wakeup() { echo "wakeup! "; } function __destruct() { echo "destruct! "; }
        function __unserialize(array $data): void { echo "unserialize! "; } }
    class Allowed { public $inner; }
    spl_autoload_register(function ($name) { echo "autoload of $name! "; });';
$open = fn (string $options = '[]') => '$cache = Larder\Cache::open("' . $folder . '/region", ' . $options . ');';
// A process that may write all classes injects objects.
echo strtok(run([], $gadget . $open("['classes' => '*']") . '$cache->set("plain", [1, [2]]);
    $gadget = (new ReflectionClass("Gadget"))->newInstanceWithoutConstructor();
    foreach (["gadget" => $gadget, "list" => [1, [$gadget]], "missing" => unserialize("O:7:\"Missing\":0:{}")] as $key => $value) {
        $cache->set($key, $value); }
    $allowed = new Allowed(); $cache->set("allowed", $allowed); $allowed->inner = [$gadget]; $cache->set("hidden", $allowed);
    echo "stored "; $gadget = null; posix_kill(getmypid(), 9);'), '!'), "\n";
$get = 'foreach (["plain", "gadget", "list", "missing", "allowed", "hidden"] as $key) { $value = $cache->get($key, "miss");
    echo $key, ": ", is_array($value) ? json_encode($value) : (is_object($value) ? $value::class : $value), ", "; unset($value); }';
$warning = fn (string $text) => preg_replace('/ in Command.*/', '', $text);
echo $warning(run([], $gadget . $open() . $get)), "\n";
echo $warning(run(['larder.unserialize_classes' => 'allowed'], $gadget . $open() . $get)), "\n";
echo $warning(run(['larder.unserialize_classes' => '*'], $gadget . $open("['classes' => ['Allowed']]") . $get)), "\n";
echo run(['larder.path' => "$folder/region"], $gadget . '$cache = Larder\Cache::shared(); echo $cache->get("plain")[0], " ";
    try { $cache->set("x", ["y" => [new ArrayObject()]]); } catch (Larder\Exception $exception) { echo $exception->getMessage(); }'), "\n";
?>
--CLEAN--
<?php require __DIR__ . '/run.inc'; remove_folders(); ?>
--EXPECT--
autoload of Missing
plain: [1,[2]], 
Warning: Larder\Cache::get(): A stored object has a class that larder.unserialize_classes does not allow, so its key misses
gadget: miss, list: miss, missing: miss, allowed: miss, hidden: miss, 
plain: [1,[2]], 
Warning: Larder\Cache::get(): A stored object has a class that larder.unserialize_classes does not allow, so its key misses
gadget: miss, list: miss, missing: miss, allowed: Allowed, hidden: miss, 
plain: [1,[2]], 
Warning: Larder\Cache::get(): A stored object has a class that larder.unserialize_classes does not allow, so its key misses
gadget: miss, list: miss, missing: miss, allowed: Allowed, hidden: miss, 
1 Objects of the class ArrayObject are not allowed: see larder.unserialize_classes
