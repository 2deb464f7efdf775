--TEST--
The shared cache of the settings: off in CLI, shared with children
--EXTENSIONS--
pcntl
--FILE--
<?php
function run(array $settings, string $code): void {
    $arguments = '';
    foreach ($settings as $name => $value) {
        $arguments .= ' -d ' . escapeshellarg("$name=$value");
    }
    $ini = ' -d extension=' . escapeshellarg(getenv('LARDER_SO'));
    passthru(escapeshellarg(PHP_BINARY) . " -n$ini$arguments -r " . escapeshellarg("\$cache = Larder\\Cache::shared(); $code") . ' 2>&1');
}
$code = 'var_dump($cache->set("a", [1]), $cache->get("a"), $cache === Larder\Cache::shared());';
run([], $code);
run(['larder.enable_cli' => 1], $code);
run(['larder.enable_cli' => 1, 'larder.memory' => 0], $code);
run(['larder.enable_cli' => 1], 'if (pcntl_fork() === 0) { $cache->set("child", getmypid()); exit; }
    pcntl_wait($status); var_dump($cache->get("child") > 0);');
// Private memory accepts objects of all classes, unless the setting restricts them.
$code = '$cache->set("o", new ArrayObject([1])); var_dump($cache->get("o") instanceof ArrayObject);';
run(['larder.enable_cli' => 1], $code);
run(['larder.enable_cli' => 1, 'larder.unserialize_classes' => 'Foo, \ArrayObject'], $code);
run(['larder.enable_cli' => 1, 'larder.unserialize_classes' => ''],
    'try { $cache->set("o", [new ArrayObject([1])]); } catch (Larder\Exception $e) { echo $e->getMessage(); }');
?>
--EXPECT--
bool(false)
NULL
bool(true)
bool(true)
array(1) {
  [0]=>
  int(1)
}
bool(true)
bool(false)
NULL
bool(true)
bool(true)
bool(true)
bool(true)
Objects of the class ArrayObject are not allowed: see larder.unserialize_classes
