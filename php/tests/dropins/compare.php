<?php

/**
 * Makes random calls on the drop-in and on WordPress's own class, and compares the results:
 * `compare.php WP_LOAD SEED CALLS`. Between the calls the drop-in starts new requests, which do not
 * have the values that the previous request kept in PHP. WordPress's class makes all calls in one
 * request. The results must be equal, because the drop-in finds the values in the shared cache.
 */

require $argv[1];

$source = file_get_contents(ABSPATH . WPINC . '/class-wp-object-cache.php');
eval('?>' . str_replace('class WP_Object_Cache', 'class Own_Object_Cache', $source));
mt_srand((int) $argv[2]);
$blogs = is_multisite() ? [1, 2, 3] : [1];
$long = str_repeat('long', 80);
$groups = ['', 'default', 'a', 'a:b', 'posts', 'users', 'site-options', 'brief', $long];
$keys = [1, '1', 2, 'a', 'b', 'b:1', 'A', "k\n", "\xff", $long, '', ' ', 1.5, null, true];
$values = [
    null, false, true, 0, 7, -3, PHP_INT_MAX, 1.5, -0.5, '', '5', '1.5', 'text', '-2', "\0larder",
    [], [1, 'a' => [null, 2]], new stdClass(), (object) ['a' => 1, 'b' => (object) ['c' => [1]]],
    new ArrayObject([1, 2]), str_repeat('long', 5000),
];
$pick = fn (array $list) => $list[mt_rand(0, count($list) - 1)];
$several = fn () => array_map(fn () => $pick(array_slice($keys, 0, 12)), range(0, mt_rand(0, 4)));

/** The drop-in, and WordPress's own class. */
$ours = new WP_Object_Cache();
$own = new Own_Object_Cache();
$ours->flush();
$begin = function () use (&$ours, $own): void {
    $ours = new WP_Object_Cache();
    foreach ([$ours, $own] as $cache) {
        $cache->add_global_groups(['users', 'site-options']);
        $cache->switch_to_blog(1);
    }
    $ours->add_non_persistent_groups('brief');
    $own->flush_group('brief');
};
$begin();
// A value that cannot be stored stays in the request. The next request does not find the previous
// value.
$failing = ['unserializable' => (object) [fn () => 1], 'too large' => str_repeat('x', 40 << 20)];
foreach ($failing as $what => $value) {
    $ours->set('k', 'before', 'a');
    $is_stored = @$ours->set('k', $value, 'a');
    $is_kept = $ours->get('k', 'a') == $value;
    $begin();
    if ($is_stored || !$is_kept || $ours->get('k', 'a') !== false) {
        exit("a value that is $what: stored or lost\n");
    }
    $is_added = @$ours->add('k', $value, 'a');
    if ($is_added || $ours->get('k', 'a') === false) {
        exit("a value that is $what: added or lost\n");
    }
    $ours->flush();
    $begin();
}
$seen = [];
for ($call = 0; $call < $argv[3]; $call++) {
    $group = $pick($groups);
    $key = $pick($keys);
    $value = $pick($values);
    $name = $pick([
        'add', 'set', 'set', 'get', 'get', 'get', 'replace', 'delete', 'incr', 'decr', 'begin',
        'add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'rare', 'blog',
    ]);
    $map = [];
    foreach ($several() as $one) {
        $map[$one] = $pick($values);
    }
    $arguments = match ($name) {
        'add', 'set', 'replace' => [$key, $value, $group, $pick([0, 0, 1000, '60'])],
        'get' => [$key, $group, $pick([false, true])],
        'delete' => [$key, $group],
        'incr', 'decr' => [$key, $pick([1, 1, 2, 10, -4, 0, '3', PHP_INT_MAX]), $group],
        'add_multiple', 'set_multiple' => [$map, $group, $pick([0, 100])],
        'get_multiple' => [$several(), $group, $pick([false, true])],
        'delete_multiple' => [$several(), $group],
        'blog' => [$pick($blogs)],
        default => [],
    };
    if ($name === 'begin') {
        $begin();
        continue;
    }
    if ($name === 'blog') {
        $name = 'switch_to_blog';
    }
    if ($name === 'rare') {
        if (mt_rand(0, 20)) {
            continue;
        }
        [$name, $arguments] = $pick([['flush', []], ['flush_group', [$group]]]);
    }
    $results = [];
    foreach ([$ours, $own] as $which => $cache) {
        $found = 'unset';
        try {
            $result = $name === 'get'
                ? $cache->get($arguments[0], $arguments[1], $arguments[2], $found)
                : $cache->$name(...$arguments);
        } catch (TypeError $error) {
            $result = 'TypeError';
        }
        // The caller has a private copy: changing it does not change later results.
        $results[$which] = var_export([$result, $name === 'get' ? $found : null], true);
        if ($result instanceof stdClass) {
            $result->changed = 'by the caller';
        }
    }
    $seen[$name] = ($seen[$name] ?? 0) + 1;
    if ($results[0] !== $results[1]) {
        printf("call %d: %s %s\nLarder: %s\nWordPress: %s\n", $call, $name,
            substr(json_encode($arguments, JSON_PARTIAL_OUTPUT_ON_ERROR), 0, 400), ...$results);
        exit(1);
    }
}
ksort($seen);
$seen['blogs'] = count($blogs);
echo json_encode($seen), "\n";
