<?php
// Compares caches of PHP: `php run.php [--rounds 3] [--workers 4] [--only NAME,…] [--ours FILE]
// [--plot FILE]`. Each cache runs in a separate process. Every round runs all of them, so that a
// ratio compares runs that are close in time. Prints two tables in Markdown, and writes a plot as
// SVG.
//
// A number is the median over all rounds of the best pass of a round, with the least and the
// greatest in brackets. The ratio is the median of the ratios to APCu with its defaults in the same
// round.

require __DIR__ . '/caches.php';

const USAGE = <<<'END'
    php run.php [OPTION…]    compares APCu, Yac, memcached and larder_apcu

      --extensions FOLDER    where apcu.so, yac.so and memcached.so are (target/php/debian)
      --ours FILE            larder_apcu.so
      --rounds N             rounds, of 20 s for each cache (3)
      --workers N            processes of the second table (4)
      --only NAME,…          these caches only, by name
      --plot FILE            writes a plot as SVG; needs gnuplot

    END;

/** The colors of the plot. */
const COLORS = ['apcu (hint 65536)' => '#b0b0b0', 'apcu newest' => '#888888',
    'apcu newest (hint 65536)' => '#606060', 'yac' => '#d8c48a', 'larder_apcu' => '#1f6fb4',
    'larder' => '#79b8e8'];

$options = getopt('', ['extensions:', 'ours:', 'rounds:', 'workers:', 'only:', 'plot:', 'help'], $end);
if (isset($options['help']) || isset($argv[$end])) {
    fwrite(isset($options['help']) ? STDOUT : STDERR, USAGE);
    exit(isset($options['help']) ? 0 : 2);
}
$settings = [
    'extensions' => realpath($options['extensions'] ?? __DIR__ . '/../../target/php/debian'),
    'ours' => isset($options['ours']) ? realpath($options['ours']) : null,
    'sockets' => ['tcp' => free_port(), 'unix' => sys_get_temp_dir() . '/bench-php-' . getmypid()],
];
$caches = caches(...$settings);
if (isset($options['only'])) {
    $only = explode(',', $options['only']);
    $unknown = array_diff($only, array_keys($caches));
    $unknown and fail('no cache ' . implode(', ', $unknown) . '; there are '
        . implode(', ', array_keys($caches)));
    $caches = array_intersect_key($caches, array_flip($only));
}
$servers = [
    serve(['-l', '127.0.0.1', '-p', (string) $settings['sockets']['tcp']]),
    serve(['-s', $settings['sockets']['unix']]),
];
register_shutdown_function(fn () => array_map('proc_terminate', $servers));
$rounds = (int) ($options['rounds'] ?? 3);
$workers = (int) ($options['workers'] ?? 4);
$one = $many = [];
for ($round = 0; $round < $rounds; ++$round) {
    foreach ($caches as $name => $cache) {
        fwrite(STDERR, "round $round of $rounds: $name          \r");
        $one[$name][] = run($name, $cache, 1, $settings);
        $many[$name][] = run($name, $cache, $workers, $settings);
    }
}
fwrite(STDERR, str_repeat(' ', 60) . "\r");

$passes = array_map(fn ($rounds) => array_map('steady', $rounds), $one);
echo versions($caches, $settings), "\n\n";
echo "Nanoseconds of an operation, one process:\n\n", table($passes), "\n";
$first = array_map(fn ($rounds) => array_map('first', $rounds), $one);
echo "Nanoseconds of a write in the first pass:\n\n", table($first), "\n";
echo "Millions of operations per second, $workers processes:\n\n", table($many);
isset($options['plot']) and plot($passes, $options['plot']);

/** Returns a port that no program uses. */
function free_port(): int
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    return (int) explode(':', stream_socket_get_name($listener, false))[1];
}

/** Returns the memcached to measure, from MEMCACHED or PATH. */
function memcached_binary(): string
{
    return getenv('MEMCACHED') ?: 'memcached';
}

/** Returns the versions of PHP, of each cache and of memcached, a line. */
function versions(array $caches, array $settings): string
{
    $print = 'foreach (["apcu", "yac", "memcached", "larder_apcu", "larder"] as $name) {'
        . ' extension_loaded($name) and print("$name " . phpversion($name) . "\n"); }';
    $found = [];
    foreach ($caches as $cache) {
        $command = [PHP_BINARY, ...php_arguments($cache), '-r', $print];
        $process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
        $found = [...$found, ...explode("\n", trim(stream_get_contents($pipes[1])))];
        proc_close($process) === 0 or fail('a cache cannot be loaded');
    }
    $server = trim(shell_exec(escapeshellarg(memcached_binary()) . ' -V') ?? '');
    $extensions = str_replace('memcached ', 'php-memcached ', array_filter(array_unique($found)));
    return 'PHP ' . PHP_VERSION . ', ' . implode(', ', [...$extensions, "server $server"]);
}

/** Starts memcached, and waits until it accepts a connection. */
function serve(array $arguments)
{
    $command = [memcached_binary(), '-m', (string) MEMORY_MIB, '-t', '2', '-u', 'root', ...$arguments];
    $server = proc_open($command, [], $pipes);
    $address = $arguments[0] === '-s' ? "unix://$arguments[1]" : "tcp://127.0.0.1:$arguments[3]";
    for ($attempt = 0; $attempt < 100; ++$attempt) {
        if (@stream_socket_client($address)) {
            return $server;
        }
        usleep(20_000);
    }
    fail("memcached does not accept connections at $address");
}

/** Runs the loads on one cache in a new process. */
function run(string $name, array $cache, int $workers, array $settings): array
{
    $command = [PHP_BINARY, ...php_arguments($cache), __DIR__ . '/load.php', $name, "$workers"];
    $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $pipes);
    fwrite($pipes[0], json_encode($settings));
    fclose($pipes[0]);
    $printed = stream_get_contents($pipes[1]);
    proc_close($process) === 0 or fail("$name: the load failed");
    return json_decode($printed, true, flags: JSON_THROW_ON_ERROR);
}

/** Returns the least time of each row without its first pass. */
function steady(array $times): array
{
    return array_map(fn (array $passes) => min(array_slice($passes, 1)), $times);
}

/** Returns the time of the first pass of the writes that take new memory. */
function first(array $times): array
{
    $writes = array_intersect_key($times, ['write short' => 0, 'write 8 KB' => 0]);
    return array_map(fn (array $passes) => $passes[0], $writes);
}

/** Returns a table with a row for each load and a column for each cache. */
function table(array $results): string
{
    $names = array_keys($results);
    $text = '| | ' . implode(' | ', $names) . " |\n|---|" . str_repeat('--:|', count($names)) . "\n";
    $of_caches = array_map(fn (array $rounds) => $rounds[0], array_values($results));
    foreach (array_keys(array_merge(...$of_caches)) as $row) {
        $cells = [];
        foreach ($results as $rounds) {
            $values = array_column($rounds, $row);
            $cells[] = $values === [] ? '' : cell($values, array_column($results['apcu'] ?? [], $row));
        }
        $text .= "| $row | " . implode(' | ', $cells) . " |\n";
    }
    return $text;
}

/** Returns the text of a cell: the median, least and greatest value, and the ratio to APCu's. */
function cell(array $values, array $apcu): string
{
    $digits = median($values) < 100 ? 2 : 0;
    $format = "%.{$digits}f (%.{$digits}f–%.{$digits}f)";
    $text = sprintf($format, median($values), min($values), max($values));
    if ($apcu === [] || $apcu === $values) {
        return $text;
    }
    $ratios = array_map(fn ($value, $other) => $value / $other, $values, $apcu);
    return $text . sprintf(', **%.2f**', median($ratios));
}

function median(array $values): float
{
    sort($values);
    return $values[intdiv(count($values), 2)];
}

/** Writes the ratios of the first table as bars, as SVG. */
function plot(array $results, string $file): void
{
    $apcu = $results['apcu'] ?? fail('--plot shows times of APCu\'s, so --only has to name apcu');
    $is_local = fn ($name) => $name !== 'apcu' && !str_starts_with($name, 'memcached');
    $names = array_values(array_filter(array_keys($results), $is_local));
    $data = '';
    foreach (array_diff(array_keys($apcu[0]), ['empty loop']) as $row) {
        $others = array_column($apcu, $row);
        $ratio = function ($name) use ($results, $row, $others) {
            $values = array_column($results[$name], $row);
            $divide = fn ($value, $other) => $value / $other;
            return $values === [] ? '?' : median(array_map($divide, $values, $others));
        };
        $data .= "\"$row\" " . implode(' ', array_map($ratio, $names)) . "\n";
    }
    $columns = ["1 with lines linecolor 'black' dashtype 2 title 'APCu'"];
    foreach ($names as $at => $name) {
        $color = COLORS[$name] ?? fail("no color for $name");
        $columns[] = sprintf("\$data using %d:xtic(1) title '%s' linecolor '%s'", $at + 2, $name,
            $color);
    }
    $gnuplot = popen('gnuplot', 'w') ?: fail('gnuplot does not start');
    fwrite($gnuplot, "\$data << END\n{$data}END\n"
        . "set terminal svg noenhanced size 1100,440 font 'sans,12' background 'white'\n"
        . "set datafile missing '?'\nset output '$file'\n"
        . "set style data histograms\nset style fill solid\nset boxwidth 0.9\n"
        . "set yrange [0:]\nset grid y\nset xtics scale 0\nset key top right\n"
        . "set ylabel 'time of an operation / APCu'\n"
        . 'plot ' . implode(', ', $columns) . "\n");
    pclose($gnuplot) === 0 or fail('gnuplot failed');
}

function fail(string $why): never
{
    fwrite(STDERR, "run.php: $why\n");
    exit(1);
}
