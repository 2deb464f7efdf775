<?php
// Stores by one process and reads by another one, through the classes of a framework: `hits.php
// symfony|doctrine|laravel`. Fails unless the second process finds the value and the hits rise.

require ['symfony' => '/usr/share/php/Symfony/Component/Cache/autoload.php',
    'doctrine' => '/usr/share/php/Symfony/Component/Cache/autoload.php',
    'laravel' => '/usr/share/php/Illuminate/Cache/autoload.php'][$argv[1]];

[$store, $read] = match ($argv[1]) {
    'symfony' => by_symfony(),
    'doctrine' => by_doctrine(),
    'laravel' => by_laravel(),
};
$value = ['title' => 'larder', 'list' => [1, 2.5, null, true], 'at' => new DateTimeImmutable('2026-01-01')];
$writer = pcntl_fork();
if ($writer === 0) {
    $store($value);
    exit(0);
}
pcntl_waitpid($writer, $status);
$before = apcu_cache_info(true)['num_hits'];
$found = $read();
$rose = apcu_cache_info(true)['num_hits'] - $before;
if ($found != $value || $rose < 1) {
    fwrite(STDERR, "$argv[1]: the second process found " . var_export($found, true) . ", hits rose by $rose\n");
    exit(1);
}
echo "$argv[1]: 1 passed, 0 failed\n";

/** Returns how Symfony's adapter stores and reads a value. */
function by_symfony(): array
{
    $pool = new Symfony\Component\Cache\Adapter\ApcuAdapter('larder');
    return [
        fn ($value) => $pool->save($pool->getItem('article')->set($value)->expiresAfter(60)),
        fn () => (new Symfony\Component\Cache\Adapter\ApcuAdapter('larder'))->getItem('article')->get(),
    ];
}

/** Same as `by_symfony`, but through Doctrine's interface. */
function by_doctrine(): array
{
    require '/usr/share/php/Doctrine/Common/Cache/autoload.php';
    $cache = Doctrine\Common\Cache\Psr6\DoctrineProvider::wrap(
        new Symfony\Component\Cache\Adapter\ApcuAdapter('doctrine'));
    return [fn ($value) => $cache->save('article', $value, 60), fn () => $cache->fetch('article')];
}

/** Returns how Laravel's store stores and reads a value. */
function by_laravel(): array
{
    $store = new Illuminate\Cache\ApcStore(new Illuminate\Cache\ApcWrapper(), 'larder');
    $count = fn () => $store->increment('count', 2) === 2 && $store->decrement('count') === 1;
    return [fn ($value) => $count() && $store->put('article', $value, 60), fn () => $store->get('article')];
}
