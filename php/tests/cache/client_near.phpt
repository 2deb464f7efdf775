--TEST--
A client reads the copies of a near cache, in its memory and by its socket, until they change
--SKIPIF--
<?php
if (!getenv('LARDERD')) die('skip LARDERD names no larderd');
?>
--FILE--
<?php
require __DIR__ . '/run.inc';

$folder = new_folder();
$origin = serve("$folder/origin", '--followers', '4');
$near = serve("$folder/near", '--origin', "$folder/origin", '--local-readers', 'same-uid', '--near-max-stale', '1s', '--origin-timeout', '200ms');
$pid = proc_get_status($near)['pid'];
echo run([], <<<CODE
    \$origin = Larder\\Client::connect('$folder/origin');
    \$near = Larder\\Client::connect('$folder/near');
    // The first reads fail until the near cache has connected.
    function await(Larder\\Client \$near, string \$value): void {
        for (\$end = microtime(true) + 10; microtime(true) < \$end; usleep(5000)) {
            if (@\$near->get('k') === \$value) return;
        }
        echo "\$value does not arrive\\n";
    }
    foreach (range(1, 20) as \$n) {
        \$origin->set('k', "value \$n");
        await(\$near, "value \$n");
    }
    foreach (range(1, 100) as \$n) {
        \$near->set('k', "own \$n");
        \$near->get('k') === "own \$n" or print("another value than the own one\\n");
    }
    await(\$near, 'own 100');
    // A request of PHP that outlives the near cache reads copies for a second at most.
    posix_kill($pid, SIGKILL);
    \$killed = microtime(true);
    \$origin->set('k', 'later');
    while (microtime(true) < \$killed + 1.5) {
        \$begun = microtime(true) - \$killed;
        \$found = @\$near->get('k', 'gone');
        \$found === 'gone' || \$found === 'own 100' && \$begun < 1 or print("\$found after \$begun s\\n");
        usleep(1000);
    }
    echo \$found, "\\n";
    CODE);
?>
--CLEAN--
<?php
require __DIR__ . '/run.inc';
remove_folders();
?>
--EXPECT--
gone
