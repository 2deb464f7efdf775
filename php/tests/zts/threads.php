<?php
// The code of each request in each thread: see threads.c. THREADS, REQUESTS, FOLDER and SOCKET are
// in the environment.

declare(strict_types=1);

const NEW_FILES = 6;

final class Point
{
    public function __construct(public int $x, public array $rest)
    {
    }
}

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new Exception($what);
    }
}

/**
 * Returns a value that only one thread and request stores. Some are longer than the buffer on the
 * stack.
 */
function value_of(int $thread, int $request): array
{
    $text = str_repeat(chr(65 + $thread % 26), 1 + ($request * 977) % 9000);
    return ['thread' => $thread, 'request' => $request, 'text' => $text, 'list' => range(0, $request % 50),
        'point' => $request % 3 === 0 ? new Point($request, [$text]) : null];
}

/** True if a thread has stored exactly this value. */
function is_whole(mixed $value): bool
{
    return is_array($value) && $value == value_of($value['thread'], $value['request']);
}

function use_apcu(int $thread, int $request): void
{
    $value = value_of($thread, $request);
    $keys = ["own:$thread", 'shared:' . $request % 7, "own:$thread:" . str_repeat('k', 300)];
    foreach ($keys as $key) {
        check(apcu_store($key, $value), "store $key");
        check(is_whole(apcu_fetch($key)), "fetch $key");
    }
    check(apcu_fetch($keys[0]) == $value && apcu_fetch($keys[2]) == $value, 'the value of this thread');
    check(is_int(apcu_inc('counter')) && is_int(apcu_inc(str_repeat('c', 300))), 'counters');
    $once = apcu_entry("once:$request", function () use ($request): string {
        apcu_inc('computed');
        usleep(1000);
        return "value of $request";
    });
    check($once === "value of $request", 'apcu_entry');
    foreach (new APCUIterator('/^own:\d+$/') as $key => $item) {
        check($key === 'own:' . $item['value']['thread'] && is_whole($item['value']), "iterator at $key");
    }
}

/**
 * Every second thread has its own time. Nothing expires here, because all threads take part in
 * expiry.
 */
function use_time(int $thread, int $request): void
{
    apcu_store("time:$thread", 1);
    check(abs(apcu_key_info("time:$thread")['creation_time'] - time()) <= 5, 'the time at the start of a request');
    if ($thread % 2 === 0) {
        ini_set('apc.use_request_time', '1');
        apcu_inc_request_time(3600);
    }
    apcu_store("time:$thread", 2);
    $ahead = apcu_key_info("time:$thread")['creation_time'] - time();
    check(abs($ahead - ($thread % 2 === 0 ? 3600 : 0)) <= 5, "the time of a thread is $ahead s ahead");
}

function use_cache(Larder\Cache $cache, int $thread, int $request): void
{
    $value = value_of($thread, $request);
    check($cache->set("own:$thread", $value) && $cache->get("own:$thread") == $value, 'set and get');
    check($cache->set('shared:' . $request % 7, $value), 'set');
    check(is_whole($cache->get('shared:' . $request % 7)), 'get');
    check(is_int($cache->increment('counter')), 'increment');
    $once = $cache->getOrCompute("once:$request", function () use ($cache, $request): string {
        $cache->increment('computed');
        usleep(1000);
        return "value of $request";
    });
    check($once === "value of $request", 'getOrCompute');
    foreach ($cache->iterate('own:') as $key => $item) {
        check($key === "own:{$item['thread']}" && is_whole($item), "iterate at $key");
    }
}

/** A new file, which all threads open at the same time. */
function use_new(int $thread, int $request): void
{
    apcu_inc("arrived:$request");
    // A thread that has failed does not arrive at the barrier.
    for ($wait = 0; $wait < 100_000 && apcu_fetch("arrived:$request") < (int)getenv('THREADS'); ++$wait) {
        usleep(50);
    }
    $cache = Larder\Cache::open(getenv('FOLDER') . "/new-$request", ['memory' => '16M']);
    check($cache->set("own:$thread", $request) && $cache->get("own:$thread") === $request, 'a new file');
}

/** A file that is replaced from time to time: each request attaches the current one. */
function use_replaced(int $thread, int $request): void
{
    $path = getenv('FOLDER') . '/replaced';
    if ($thread === 0 && $request % 8 === 7) {
        @unlink($path);
    }
    $cache = Larder\Cache::open($path, ['memory' => '16M', 'classes' => '*']);
    for ($round = 0; $round < 20; ++$round) {
        $cache->set("$round", value_of($thread, $round));
        $found = $cache->get("$round");
        check($found === null || is_whole($found), 'a value of a file that is replaced');
        usleep(500);
    }
}

function use_client(int $thread, int $request): void
{
    $client = Larder\Client::connect(getenv('SOCKET'), ['classes' => '*']);
    $value = value_of($thread, $request);
    check($client->set("own:$thread", $value) && $client->get("own:$thread") == $value, 'client');
    check(is_int($client->increment('counter')), 'a counter of the client');
}

function caches(): array
{
    return [Larder\Cache::shared(),
        Larder\Cache::open(getenv('FOLDER') . '/kept', ['memory' => '16M', 'classes' => '*'])];
}

function check_sums(): void
{
    $threads = (int)getenv('THREADS');
    $requests = (int)getenv('REQUESTS');
    $sums = [apcu_fetch('counter'), apcu_fetch(str_repeat('c', 300)),
        Larder\Client::connect(getenv('SOCKET'))->get('counter')];
    $computed = [apcu_fetch('computed')];
    foreach (caches() as $cache) {
        $sums[] = $cache->get('counter');
        $computed[] = $cache->get('computed');
    }
    check($sums === array_fill(0, 5, $threads * $requests), 'counters: ' . json_encode($sums));
    check($computed === [$requests, $requests, $requests], 'computed: ' . json_encode($computed));
}

return function (?int $thread, ?int $request): bool {
    if ($thread === null) {
        check_sums();
        return true;
    }
    use_apcu($thread, $request);
    $request < NEW_FILES and use_new($thread, $request);
    foreach (caches() as $cache) {
        use_cache($cache, $thread, $request);
    }
    use_client($thread, $request);
    use_replaced($thread, $request);
    use_time($thread, $request);
    return true;
};
