<?php
// Without apc.enable_cli and larder.enable_cli, threads of the command line have no cache.

declare(strict_types=1);

return fn (?int $thread, ?int $request): bool => !apcu_enabled() && !apcu_store('key', 1)
    && apcu_cache_info_fails() && !Larder\Cache::shared()->set('key', 1);

function apcu_cache_info_fails(): bool
{
    try {
        new APCUIterator();
        return false;
    } catch (Error) {
        return true;
    }
}
