--TEST--
A near cache of several origins finds the same owners of keys as php-memcached with the same servers
--SKIPIF--
<?php
if (!getenv('LARDERD')) die('skip LARDERD names no larderd');
if (PHP_ZTS) die('skip Debian builds php-memcached for a PHP without threads');
if (!is_file(getenv('LARDER_DEBIAN') . '/memcached.so')) die('skip LARDER_DEBIAN has no memcached.so');
?>
--FILE--
<?php
require __DIR__ . '/run.inc';

$folder = new_folder();
$debian = getenv('LARDER_DEBIAN');
$weights = ['a' => 1, 'b' => 5, 'c' => 2];
$servers = $list = $origins = [];
foreach ($weights as $name => $weight) {
    $servers[] = serve("$folder/$name", '--followers', '4');
    $list[] = ["$folder/$name", 0, $weight];
    $origins[] = "$folder/$name:$weight";
}
$near = serve("$folder/near", '--origin', implode(',', $origins));
$list = var_export($list, true);
echo run([], <<<CODE
    \$direct = new Memcached();
    \$direct->setOption(Memcached::OPT_LIBKETAMA_COMPATIBLE, true);
    \$direct->addServers($list);
    \$near = new Memcached();
    \$near->addServer('$folder/near', 0);
    // The first requests fail until the near cache has connected to all origins.
    for (\$end = microtime(true) + 10; microtime(true) < \$end && !\$near->flush(); usleep(5000));
    \$lost = 0;
    foreach (range(1, 2000) as \$n) {
        \$direct->set("direct:\$n", \$n) && \$near->set("near:\$n", \$n) or print("\$n is not stored\\n");
    }
    foreach (range(1, 2000) as \$n) {
        \$lost += (\$near->get("direct:\$n") !== \$n) + (\$direct->get("near:\$n") !== \$n);
    }
    echo "\$lost of 4000 are not found\\n";
    CODE, ["$debian/igbinary.so", "$debian/msgpack.so", "$debian/memcached.so"]);
?>
--CLEAN--
<?php
require __DIR__ . '/run.inc';
remove_folders();
?>
--EXPECT--
0 of 4000 are not found
