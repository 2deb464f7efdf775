/** The handlers have the types that Next.js expects of them. */

import { cacheHandler, useCacheHandler } from 'larder-cache/next';
import type { CacheHandler as UseCacheHandler } from 'next/dist/server/lib/cache-handlers/types.js';
import type {
    CacheHandler,
    CacheHandlerContext,
} from 'next/dist/server/lib/incremental-cache/index.js';

/** Except `get`, which returns what `set` has received, so that its type is as wide. */
type CacheHandlerClass = new (context: CacheHandlerContext) => Omit<CacheHandler, 'get'>;

export const Handler: CacheHandlerClass = cacheHandler();
export const use: UseCacheHandler = useCacheHandler();
