// cache-manager with Keyv stores in a cache: the behaviour that its documentation promises.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { createCache } from 'cache-manager';
import Keyv from 'keyv';
import { Cache } from 'larder-cache';
import { KeyvLarder } from 'larder-cache/keyv';

const folder = mkdtempSync(join(tmpdir(), 'larder-manager-'));
const shared = join(folder, 'manager.larder');
after(() => rmSync(folder, { recursive: true, force: true }));

function store(namespace = 'app') {
    return new Keyv({ store: new KeyvLarder({ shared, memory: '8M' }), namespace });
}

function manager(options = {}) {
    return createCache({ stores: [store()], ...options });
}

beforeEach(() => manager().clear());

test('a value is stored for all caches that share the file', async () => {
    await manager().set('key', { name: 'Ada' });
    assert.deepEqual(await manager().get('key'), { name: 'Ada' });
    assert.equal(await manager().del('key'), true);
    assert.equal(await manager().get('key'), undefined);
});

test('mset, mget and mdel work on several keys', async () => {
    const cache = manager();
    await cache.mset([
        { key: 'a', value: 1 },
        { key: 'b', value: [2], ttl: 60_000 },
    ]);
    assert.deepEqual(await cache.mget(['a', 'b', 'none']), [1, [2], undefined]);
    await cache.mdel(['a', 'b']);
    assert.deepEqual(await cache.mget(['a', 'b']), [undefined, undefined]);
});

test('an item ends after its ttl, or that of the cache', async () => {
    const cache = manager({ ttl: 150 });
    await cache.set('default', 1);
    await cache.set('own', 2, 60_000);
    const end = await cache.ttl('own');
    assert.ok(end > Date.now() + 50_000 && end <= Date.now() + 60_000, String(end));
    await sleep(200);
    assert.deepEqual(await cache.mget(['default', 'own']), [undefined, 2]);
});

test('clear leaves the items of other namespaces', async () => {
    const others = new Cache({ shared });
    others.set('plain', 1);
    const cache = manager();
    await cache.set('key', 1);
    await cache.clear();
    assert.equal(await cache.get('key'), undefined);
    assert.equal(others.get('plain'), 1);
});

test('wrap calls its function once for callers of the same cache', async () => {
    const cache = manager();
    let calls = 0;
    const load = async () => {
        calls += 1;
        await sleep(20);
        return { calls };
    };
    const values = await Promise.all([1, 2, 3].map(() => cache.wrap('key', load, 60_000)));
    assert.deepEqual(values, [{ calls: 1 }, { calls: 1 }, { calls: 1 }]);
    assert.deepEqual(await manager().wrap('key', load), { calls: 1 });
});

test('wrap stores no error', async () => {
    const cache = manager();
    const fails = () => Promise.reject(new Error('no database'));
    await assert.rejects(cache.wrap('key', fails), /no database/);
    assert.equal(await cache.wrap('key', () => 'value'), 'value');
});

test('wrap takes the ttl that a function returns', async () => {
    const cache = manager();
    await cache.wrap('key', () => 17, (value) => value * 1000);
    const end = await cache.ttl('key');
    assert.ok(end > Date.now() + 16_000 && end <= Date.now() + 17_000, String(end));
});

test('wrap refreshes an item in the background within refreshThreshold', async () => {
    const cache = manager({ ttl: 2000, refreshThreshold: 1900 });
    let calls = 0;
    const load = async () => ++calls;
    assert.equal(await cache.wrap('key', load), 1);
    await sleep(150);
    assert.equal(await cache.wrap('key', load), 1);
    for (let i = 0; calls < 2 && i < 100; i++) await sleep(10);
    assert.equal(calls, 2);
    await sleep(20);
    assert.equal(await cache.get('key'), 2);
});

test('two stores are layers: a hit of the second one is copied into the first one', async () => {
    const memory = new Keyv();
    const second = store('layer');
    await second.set('key', 'value');
    const cache = createCache({ stores: [memory, second] });
    assert.equal(await cache.wrap('key', () => assert.fail('is cached')), 'value');
    assert.equal(await memory.get('key'), 'value');
});

test('events report what happens', async () => {
    const cache = manager();
    const events = [];
    cache.on('set', ({ key, value }) => events.push(['set', key, value]));
    cache.on('del', ({ key }) => events.push(['del', key]));
    await cache.set('key', 1);
    await cache.del('key');
    // cache-manager reports a store, and then the end of all stores.
    assert.deepEqual(events[0], ['set', 'key', 1]);
    assert.deepEqual(events.at(-1), ['del', 'key']);
});

test('disconnect closes the stores', async () => {
    const adapter = new KeyvLarder();
    await createCache({ stores: [new Keyv({ store: adapter })] }).disconnect();
    assert.equal(adapter.cache.closed, true);
});
