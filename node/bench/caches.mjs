// The caches that load.mjs measures. Each has the functions `open`, which returns a cache, and `get`
// and `set`. A cache of strings has `text: true`.

import { LRUCache } from 'lru-cache';
import memjs from 'memjs';
import NodeCache from 'node-cache';

import * as larder from '../dist/index.js';

const MEMORY = '256M';
const KEYS_MAX = 200_000;

/** A cache in this process: its functions are synchronous. */
const here = (open, options = {}) => ({
    open,
    get: (cache, key) => cache.get(key),
    set: (cache, key, value) => cache.set(key, value),
    close: (cache) => cache.close?.(),
    ...options,
});

/** A client of a server: its functions return promises. */
const remote = (open, options = {}) => ({ ...here(open, options), isRemote: true });

const MEMJS = {
    get: async (client, key) => (await client.get(key)).value,
    set: (client, key, value) => client.set(key, value, {}),
};

export const CACHES = {
    'Map': here(() => new Map()),
    'Map, copy': here(() => new Map(), { get: (map, key) => copied(map.get(key)) }),
    'lru-cache': here(() => new LRUCache({ max: KEYS_MAX })),
    'lru-cache, copy': here(() => new LRUCache({ max: KEYS_MAX }), {
        get: (cache, key) => copied(cache.get(key)),
    }),
    'node-cache': here(() => new NodeCache()),
    'Cache': here(() => new larder.Cache({ memory: MEMORY })),
    'Cache, shared': here(({ memory }) => {
        return new larder.Cache({ memory: MEMORY, shared: `${memory}/bench.larder` });
    }),
    'lru-cache, text': here(() => new LRUCache({ max: KEYS_MAX }), { text: true }),
    // The copy that a cache outside of JavaScript's heap has to make.
    'lru-cache, text, copy': here(() => new LRUCache({ max: KEYS_MAX }), {
        text: true,
        get: (cache, key) => cache.get(key)?.latin1Slice(),
        set: (cache, key, value) => cache.set(key, Buffer.from(value, 'latin1')),
    }),
    'Cache, text': here(() => new larder.Cache({ memory: MEMORY }), { text: true }),
    'Client, local reads': remote(({ larderd }) => new larder.Client(`unix:${larderd}`)),
    'Client': remote(({ larderd }) => new larder.Client(`unix:${larderd}`, { local: false })),
    'Client, TCP': remote(({ larderdPort }) => new larder.Client(`127.0.0.1:${larderdPort}`)),
    'memjs, larderd': remote(({ larderdPort }) => memjsOf(larderdPort), MEMJS),
    'memjs, memcached': remote(({ memcachedPort }) => memjsOf(memcachedPort), MEMJS),
};

function memjsOf(port) {
    return memjs.Client.create(`127.0.0.1:${port}`, { retries: 0 });
}

function copied(bytes) {
    return bytes && Buffer.from(bytes);
}
