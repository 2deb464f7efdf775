<?php
// Compares larder_apcu with APCu: `php -n differential.php --apcu FILE --ours FILE [--igbinary
// FILE] [--scripts 200] [--seed 1]`. It runs random scripts of apcu_* calls on both, each in a
// separate process, and compares every result and warning. Then it compares the reflection of the
// two modules. If there is a difference, it prints the first one of each script, and the exit
// status is 1.

require __DIR__ . '/scripts.php';

$options = getopt('', ['apcu:', 'ours:', 'igbinary:', 'scripts:', 'seed:', 'worker:', 'serializer:']);
if (isset($options['worker'])) {
    $options['worker'] === 'reflection' ? print_reflection()
        : (new Script((int) $options['worker'], $options['serializer']))->run();
    exit(0);
}
$igbinary = $options['igbinary'] ?? null;
$different = 0;
foreach (['php', 'default', ...($igbinary === null ? [] : ['igbinary'])] as $serializer) {
    $first = (int) ($options['seed'] ?? 1);
    for ($seed = $first; $seed < $first + (int) ($options['scripts'] ?? 200); ++$seed) {
        $different += (int) differs($options, "$seed", $serializer);
    }
}
$different += (int) differs($options, 'reflection', 'php');
echo $different === 0 ? "no differences\n" : "$different differences\n";
exit($different === 0 ? 0 : 1);

/** Runs a worker on both modules, and prints the first line that differs. */
function differs(array $options, string $worker, string $serializer): bool
{
    [$theirs, $ours] = array_map(fn (string $name) => lines($options, $options[$name], $worker,
        $serializer), ['apcu', 'ours']);
    foreach ($theirs as $at => $line) {
        if ($line !== ($ours[$at] ?? null)) {
            echo "$worker, serializer $serializer, line $at:\n";
            echo implode("\n", array_slice($theirs, max(0, $at - 3), min($at, 3))), "\n";
            echo "APCu: $line\nours: ", $ours[$at] ?? '(nothing)', "\n";
            return true;
        }
    }
    return count($theirs) !== count($ours);
}

/** Returns the output of a worker with a module. */
function lines(array $options, string $module, string $worker, string $serializer): array
{
    $ini = ['extension=' . realpath($module), 'apc.enable_cli=1', "apc.serializer=$serializer",
        'serialize_precision=17', 'precision=17'];
    if (isset($options['igbinary'])) {
        $ini[] = 'extension=' . realpath($options['igbinary']);
    }
    $command = [PHP_BINARY, '-n'];
    foreach ($ini as $setting) {
        array_push($command, '-d', $setting);
    }
    array_push($command, __FILE__, '--worker', $worker, '--serializer', $serializer);
    $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
    $printed = stream_get_contents($pipes[1]);
    $status = proc_close($process);
    return [...explode("\n", rtrim($printed, "\n")), "exit status $status"];
}

/** Prints functions, parameters, defaults, the class, constants and ini keys. */
function print_reflection(): void
{
    foreach (get_extension_funcs('apcu') as $name) {
        echo new ReflectionFunction($name);
    }
    echo new ReflectionClass('APCUIterator');
    foreach (get_defined_constants(true)['apcu'] as $name => $value) {
        echo str_starts_with($name, "\0") ? '' : "$name $value\n";
    }
    var_export(ini_get_all('apcu'));
    echo "\n", phpversion('apcu'), "\n", json_encode(extension_loaded('apcu')), "\n";
}
