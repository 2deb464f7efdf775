/**
 * Usages of the package that must have these types, and mistakes that the compiler must find. The
 * file is compiled, not run.
 */

import { createCache } from 'cache-manager';
import Keyv from 'keyv';
import { Cache, type CacheOptions, isLarderError, type Key } from 'larder-cache';
import { KeyvLarder } from 'larder-cache/keyv';
import { cacheHandler, useCacheHandler } from 'larder-cache/next';
import { type SessionStore, sessionStore } from 'larder-cache/session';

interface User {
    name: string;
}

const options: CacheOptions = { memory: '64M', shared: '/dev/shm/usages.larder', ttl: 60_000 };
const users = new Cache<User>(options);

export const found: User | undefined = users.get('ada');
export const many: Map<string, User> = users.getMany(['ada', 'grace']);
export const chained: Cache<User> = users.set('ada', { name: 'Ada' });
export const failed: string[] = users.setMany([['ada', { name: 'Ada' }]]);
export const loaded: Promise<User> = users.wrap('ada', undefined, async () => ({ name: 'Ada' }));
export const stale: Promise<User> = users.wrap('ada', 1000, ({ signal }) => fetchUser(signal), {
    stale: 60_000,
});
export const key: Key = new Uint8Array([1]);
export const removed: number = users.removePrefix('user:');
export const entries: [string | Buffer, User][] = [...users];
export const counter: number | bigint = new Cache().increment('visits');
export const perhaps: number | bigint | undefined = new Cache().increment('visits', 1, {
    initial: null,
});

// @ts-expect-error A value has the type of the cache.
users.set('ada', 'Ada');
// @ts-expect-error A key is text or bytes.
users.get(17);
// @ts-expect-error The option does not exist.
new Cache({ maxItems: 100 });
// @ts-expect-error A loader returns the type of the cache.
users.wrap('ada', undefined, () => 17);

async function fetchUser(signal: AbortSignal): Promise<User> {
    signal.throwIfAborted();
    return { name: 'Ada' };
}

try {
    users.close();
} catch (error) {
    if (isLarderError(error, 'ERR_LARDER_CLOSED')) console.log(error.code, error.message);
}

const store = new KeyvLarder({ shared: '/dev/shm/usages.larder' });
const keyv = new Keyv<User>({ store: new KeyvLarder(users), namespace: 'users' });
export const ofKeyv: Promise<User | undefined> = keyv.get('ada');
export const manager = createCache({ stores: [keyv, new Keyv({ store })] });
export const both = new KeyvLarder({ cache: users, namespace: 'users' });
// @ts-expect-error A store takes a cache or options.
new KeyvLarder('redis://127.0.0.1');

export const Handler = cacheHandler({ shared: '/dev/shm/usages.larder', prefix: 'site:' });
export const handler = new Handler();
export const useCache = useCacheHandler({ cache: new Cache(), tagMemory: '1M' });

declare const sessionModule: { Store: new () => object };
export const sessions: SessionStore = sessionStore(sessionModule, { memory: '64M', ttl: 60_000 });
// @ts-expect-error The first argument is the module express-session.
sessionStore({ memory: '64M' });
